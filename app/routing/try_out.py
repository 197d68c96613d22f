"""Sending one message over a transport, to see whether it works (docs/commands/transports.md#transports)."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from app.addresses import ADDRESS_KIND_BY_TYPE, is_valid_email, is_valid_mobile, normalize_address
from app.audit.record import Act, record_at_once
from app.clock import this_second
from app.errors import ServiceError
from app.infrastructure.digests import address_digest
from app.services import Services
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms, Outcome, Transport, Untaken
from app.transports.email import email_transport, mime
from app.transports.sms import sms_transport
from app.transports.sms.incoming import ReceivingTransport

TRIAL_SUBJECT = "Test of a transport"
TRIAL_TEXT = "This message was sent to test a transport. STOP"

OUTCOME_TEXTS = {
    Outcome.ACCEPTED: "accepted: the relay or gateway has accepted the message",
    Outcome.REFUSED: "refused: the relay or gateway will not accept this message",
    Outcome.UNCERTAIN: "uncertain: the message was sent, but there was no answer; it may have arrived",
    Outcome.DEFERRED: "not accepted: the message of a send would be tried again later",
}
NOT_REACHED_TEXT = "not reached: nothing was sent; the message of a send would use the next transport of its route"


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a test message, and the seconds that it took with connecting."""

    uuid: str
    result: DeliveryResult
    seconds: float

    @property
    def words(self) -> str:
        """The outcome of the trial in words."""
        return NOT_REACHED_TEXT if self.result.untaken is Untaken.TRANSPORT else OUTCOME_TEXTS[self.result.outcome]


def try_out(services: Services, transport_name: str, type_: str, url: str, *, sender: str, to: str) -> Trial:
    """Sends a test message over the transport of that name and returns how it went. Raises `ServiceError` for an
    address that does not fit the type."""
    _check(type_, sender, to)
    digest = address_digest(services.settings.secret_key, normalize_address(ADDRESS_KIND_BY_TYPE[type_], to))
    record_at_once(services.database, Act("transport.tested", name=transport_name, address_digest=digest))
    name = str(uuid.uuid4())
    message = _email(name, sender, to) if type_ == "email" else OutboundSms(name, sender, to, TRIAL_TEXT)
    transport: Transport[Any] = email_transport(url) if type_ == "email" else sms_transport(url)
    connection, start = transport.connect(), time.monotonic()
    try:
        result = connection.send(message)
        seconds = time.monotonic() - start
    finally:
        connection.close()
        if isinstance(transport, ReceivingTransport):
            transport.end()
    return Trial(name, result, seconds)


def _email(name: str, sender: str, to: str) -> OutboundEmail:
    content = mime.build(
        from_name=None,
        from_address=sender,
        to=to,
        reply_to=None,
        subject=TRIAL_SUBJECT,
        html=None,
        text=TRIAL_TEXT,
        message_id=f"{name}@{sender.rpartition('@')[2]}",
        date=this_second(),
    )
    return OutboundEmail(name, sender, to, content)


def _check(type_: str, sender: str, to: str) -> None:
    if type_ == "sms":
        if not is_valid_mobile(to):
            detail = f"{to!r} is not a mobile number in international format, such as 61411111111"
            raise ServiceError("invalid_mobile_address", field="to", detail=detail)
        return
    for field, address in (("to", to), ("from", sender)):
        if not is_valid_email(address):
            raise ServiceError("invalid_email_address", field=field, detail=f"{address!r} is not an email address")
