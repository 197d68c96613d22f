"""What a send needed when it was accepted, asked again when it leaves (docs/delivery.md#why-a-message-waits).

An owner whose confirmation was taken back, a domain that is not verified any more or was deleted, a sender of text
messages that was withdrawn: what waits is deferred until the account has it again, or the retry period ends, so that
no mail leaves unsigned or from a stranger's domain, and none is lost. All of it is loaded with the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import SmsSender
from app.recipients.states import Lacking, WaitReason
from app.sends.delivery.recipient import Claimed
from app.transports.base import DeliveryResult

NOT_PERMITTED = "4.7.1"
"""The RFC 3463 code: delivery is not authorized."""

SenderKey = tuple[int, str]
"""Account and address."""


class ApprovedSender(NamedTuple):
    """What concerns delivery of a sender of text messages: its rate, and the only list that it sends to, if any."""

    messages_per_second: float | None
    list_id: int | None


Senders = Mapping[SenderKey, ApprovedSender]


def sender_key(recipient: Claimed) -> SenderKey:
    """That of the recipient's text message."""
    return recipient.account_id, recipient.compiled.send.from_address


def load_senders(session: Session, recipients: Iterable[Claimed]) -> Senders:
    """The approved senders of these text messages; no select where there is none."""
    keys = {sender_key(recipient) for recipient in recipients if recipient.type == "sms"}
    if not keys:
        return {}
    columns = SmsSender.account_id, SmsSender.address, SmsSender.messages_per_second, SmsSender.list_id
    statement = select(*columns).where(
        SmsSender.account_id.in_({account for account, _ in keys}),
        SmsSender.address.in_({address for _, address in keys}),
    )
    rows = session.execute(statement)
    return {(account, address): ApprovedSender(rate, list_id) for account, address, rate, list_id in rows}


def lacking_of(recipient: Claimed, senders: Senders) -> Lacking | None:
    """The first of what the recipient's send needs and lacks."""
    send = recipient.compiled.send
    if not send.owner_confirmed:
        return Lacking(WaitReason.OWNER_UNCONFIRMED)
    if send.type == "email":
        return recipient.compiled.domain.lacking
    sender = senders.get(sender_key(recipient))
    is_approved = sender is not None and sender.list_id in (None, send.list_id)
    return None if is_approved else Lacking(WaitReason.SENDER_MISSING, send.from_address)


def not_permitted(recipients: Collection[Claimed], senders: Senders) -> dict[int, DeliveryResult]:
    """The deferrals of those whose sends lack something, by id."""
    return {
        recipient.id: DeliveryResult.deferred(lacking.text, NOT_PERMITTED)
        for recipient in recipients
        if (lacking := lacking_of(recipient, senders)) is not None
    }
