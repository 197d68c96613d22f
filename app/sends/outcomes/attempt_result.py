"""Result of one delivery attempt: the fact that is journalled, and from which everything else follows."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from app.db.storable import storable_id, storable_text
from app.recipients.reasons import FailReason
from app.recipients.redaction import Redaction
from app.sends.secret_values import SecretValues
from app.transports.base import DeliveryResult, Outcome, Untaken

MAX_SEGMENTS = 255
INTERNAL_FAULT = "internal fault"
"""How the text of a deferral begins that is a fault of our own."""
_CODE = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")

logger = logging.getLogger(__name__)


class AttemptResult(NamedTuple):
    """Result of one delivery attempt.

    `attempt` is the number of the attempt, so that a result read from a journal is never mistaken for that of a later
    attempt. `skip` is the reason for not sending at all, with `detail` where the reason needs one; otherwise `result`
    is the transport's answer, and `rendered` how many bytes the message was rendered to. `transport` is the name of the
    transport that answered; None for the one in the settings (docs/transports.md#named-transports). `retry_in` is the
    time in seconds until the next attempt after a deferral, infinite if there is none; None if the retry rules apply.
    `is_test` is whether the account is a test account.
    """

    recipient_id: int
    attempt: int
    address: str | None
    moment: datetime
    result: DeliveryResult | None = None
    skip: FailReason | None = None
    detail: str | None = None
    rendered: int | None = None
    transport: str | None = None
    retry_in: float | None = None
    is_test: bool = False

    def line(self) -> bytes:
        """A line for the journal. Only attempts that reached the transport are written there."""
        if self.result is None:
            raise ValueError("an attempt without a result is not for the journal")
        fields = {
            "recipient_id": self.recipient_id,
            "attempt": self.attempt,
            "address": self.address,
            "moment": self.moment.isoformat(),
            "outcome": self.result.outcome.value,
            "reply": self.result.reply,
            "status": self.result.status,
            "gateway_id": self.result.gateway_id,
            "segments": self.result.segments,
            "note": self.result.note,
            **({"about_sender": True} if self.result.about_sender else {}),
            "rendered": self.rendered,
            **({"transport": self.transport} if self.transport else {}),
            **({"retry_in": self.retry_in} if self.retry_in is not None else {}),
            **({"is_test": True} if self.is_test else {}),
        }
        return orjson.dumps(fields) + b"\n"


def parse_line(line: bytes) -> AttemptResult:
    """Parses a line of a journal; raises `ValueError` for one that was cut short."""
    try:
        fields: dict[str, Any] = orjson.loads(line)
        return AttemptResult(
            recipient_id=fields["recipient_id"],
            attempt=fields["attempt"],
            address=fields["address"],
            moment=datetime.fromisoformat(fields["moment"]),
            result=DeliveryResult(
                Outcome(fields["outcome"]),
                fields["reply"],
                fields["status"],
                fields.get("gateway_id"),  # a journal of an older version has neither
                fields.get("segments"),
                fields.get("note"),
                about_sender=bool(fields.get("about_sender")),
            ),
            rendered=fields.get("rendered"),
            transport=fields.get("transport"),
            retry_in=fields.get("retry_in"),
            is_test=bool(fields.get("is_test")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a journal line: {error}") from None


def sanitize_result(result: object) -> DeliveryResult:
    """The result in a form that databases, journal and JSON can store, whatever a transport has answered. Raises
    nothing: a message that a relay or gateway has accepted must not be sent again because of the text of its reply.

    An answer without an outcome is a fault of the transport, and defers.
    """
    if not isinstance(result, DeliveryResult) or tuple.__len__(result) != len(DeliveryResult._fields):
        return _unreadable(result)
    outcome, reply, status, gateway_id, segments, note, untaken, about_sender = list[Any](tuple.__iter__(result))
    if type(outcome) is not Outcome:
        return _unreadable(outcome)
    is_code = type(status) is str and _CODE.fullmatch(status)
    is_count = type(segments) is int and 0 < segments <= MAX_SEGMENTS
    return DeliveryResult(
        outcome,
        storable_text(reply),
        status if is_code else None,
        None if gateway_id is None else storable_id(gateway_id),
        segments if is_count else None,
        None if note is None else storable_text(note),
        untaken if type(untaken) is Untaken else None,
        about_sender is True,
    )


def redact_reply(result: DeliveryResult, redaction: Redaction, secrets: SecretValues | None = None) -> DeliveryResult:
    """The result with a reply that tenants may read; the whole reply becomes the note if it differs. Neither quotes
    secret values of the message."""
    if secrets is not None:
        result = result._replace(reply=secrets.mask(result.reply), note=result.note and secrets.mask(result.note))
    reply = redaction.redact(result.reply)
    if reply == result.reply:
        return result
    notes = [result.reply, *([result.note] if result.note else [])]
    return result._replace(reply=reply, note="; ".join(notes))


def internal_fault(error: BaseException) -> DeliveryResult:
    """The deferral after an error of the service itself, or of an installed transport."""
    return DeliveryResult.deferred(f"{INTERNAL_FAULT}: {type(error).__name__[:100]}", "4.3.0")


def _unreadable(answer: object) -> DeliveryResult:
    logger.error("a transport's answer is not a result", extra={"type": type(answer).__name__})
    return internal_fault(TypeError())
