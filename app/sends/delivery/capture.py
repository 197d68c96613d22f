"""Capturing the messages of test accounts, in place of sending them (docs/testing.md#inbox)."""

from __future__ import annotations

from email.header import decode_header, make_header
from typing import Any, Protocol

from app.addresses import ADDRESS_KIND_BY_TYPE, normalize_address
from app.clock import seconds_from_now, this_second
from app.db.database import Database
from app.db.models import CapturedMessage
from app.db.upsert import insert_or_ignore
from app.inbox.magic import ANSWERED, SECONDS, Magic, magic_of
from app.sends.delivery.compose import PreparedRecipient
from app.sends.delivery.simulated_answers import simulated_answer
from app.transports.base import DeliveryResult, OutboundEmail, OutboundSms
from app.transports.sms.segments import count_segments


class Capture(Protocol):
    """Stores a message of a test account, and answers as a relay or a gateway that accepts it, unless its address is a
    magic one that is answered otherwise."""

    def __call__(
        self, recipient: PreparedRecipient, message: OutboundEmail | OutboundSms, *, is_copy: bool
    ) -> DeliveryResult: ...


def is_test(recipient: PreparedRecipient) -> bool:
    """Whether the recipient's message is captured."""
    return recipient.compiled.send.is_test


def capture_in(database: Database) -> Capture:
    """A capture that stores in this database, in a transaction of its own for each message. Raises
    `SQLAlchemyError`."""

    def capture(recipient: PreparedRecipient, message: OutboundEmail | OutboundSms, *, is_copy: bool) -> DeliveryResult:
        magic = None if is_copy else magic_of(recipient.claimed.type, message.to)
        answer = simulated_answer(magic, recipient.claimed.type, recipient.claimed.attempts)
        if answer is None or magic is not Magic.SLOW:
            row = _row(recipient, message, is_copy=is_copy, magic=magic)
            index = ("recipient_id", "is_copy")
            with database.write() as transaction:
                transaction.execute(insert_or_ignore(transaction, CapturedMessage, row, index=index))
        segments = count_segments(message.text) if isinstance(message, OutboundSms) else None
        return answer or DeliveryResult.accepted("captured", segments=segments)

    return capture


def _row(
    recipient: PreparedRecipient, message: OutboundEmail | OutboundSms, *, is_copy: bool, magic: Magic | None
) -> dict[str, Any]:
    claimed = recipient.claimed
    happens_later = magic is not None and magic not in ANSWERED
    return {
        "account_id": claimed.account_id,
        "recipient_id": recipient.id,
        "is_copy": is_copy,
        "uuid": claimed.uuid,
        "type": claimed.type,
        "address": normalize_address(ADDRESS_KIND_BY_TYPE[claimed.type], message.to).key,
        "captured_time": this_second(),
        "simulates": magic,
        "simulate_time": seconds_from_now(SECONDS) if happens_later else None,
        **_columns(recipient, message),
    }


def _columns(recipient: PreparedRecipient, message: OutboundEmail | OutboundSms) -> dict[str, Any]:
    """The columns that mails and text messages fill from different attributes. The list of the inbox shows the subject,
    so secret values are masked in it; the content is what has left."""
    if isinstance(message, OutboundSms):
        return {"sender": message.sender, "subject": None, "content": message.text.encode("utf-8", "replace")}
    subject, secrets = _subject(message.content), recipient.claimed.secrets
    subject = subject if secrets is None else secrets.mask(subject)
    return {"sender": message.envelope_from, "subject": subject, "content": message.content}


def _subject(mail: bytes) -> str:
    """The subject of a mail that this service has composed."""
    head = mail.partition(b"\r\n\r\n")[0].decode("utf-8", "replace")
    lines = head.replace("\r\n ", " ").split("\r\n")
    written = next((line.removeprefix("Subject: ") for line in lines if line.startswith("Subject: ")), "")
    return str(make_header(decode_header(written)))
