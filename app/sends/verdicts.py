"""What came of one try of one recipient: the fact that is journalled, and from which everything else follows."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from app.transports.base import DeliveryResult, Outcome

LONGEST_DETAIL = 1000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class Verdict(NamedTuple):
    """The end of one try.

    `attempt` is the number of the try, so that a verdict that is read again from a journal is never taken for one of
    a later try. `skip` is the reason for not sending at all; otherwise `result` is what the transport said.
    """

    recipient_id: int
    attempt: int
    address: str | None
    moment: datetime
    result: DeliveryResult | None = None
    skip: str | None = None

    def line(self) -> bytes:
        """One line for the journal. Only tries that reached the transport are written down."""
        if self.result is None:
            raise ValueError("a verdict without a result is not for the journal")
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
        }
        return orjson.dumps(fields) + b"\n"


def parse_line(line: bytes) -> Verdict:
    """The verdict of a journal's line; raises `ValueError` for one that was cut short."""
    try:
        fields: dict[str, Any] = orjson.loads(line)
        return Verdict(
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
            ),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a journal line: {error}") from None


def cleaned(result: DeliveryResult) -> DeliveryResult:
    """The result with a reply that databases and JSON can hold: no control characters, no half surrogates, not long."""
    if len(result.reply) <= LONGEST_DETAIL and result.reply.isascii() and result.reply.isprintable():
        return result
    reply = _CONTROL.sub(" ", result.reply).encode("utf-8", "replace").decode()[:LONGEST_DETAIL]
    return result._replace(reply=reply)
