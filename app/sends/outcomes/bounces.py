"""Hard and soft bounces: how they are distinguished and described, whoever reports them. Pure; no database.

relay      refused: hard; deferred until the end of the retry period: soft
DSN        5.x.x: hard; 4.x.x: soft
receipt    of a text message: hard, unless its validity period ended

A hard bounce blocks its address if it speaks of it (`refusals`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from app.recipients.states import RecipientState
from app.sends.outcomes.refusals import blocks_address, blocks_number, refuses_address
from app.transports.base import DeliveryResult, Outcome

# The second digit of an RFC 3463 code, in words.
BOUNCE_REASONS = {
    "1": "bad destination address",
    "2": "mailbox unavailable",
    "3": "mail system not accepting",
    "4": "network or routing trouble",
    "5": "mail protocol error",
    "6": "message content refused",
    "7": "refused by policy",
}
OTHER_REASON = "not delivered"
_EXPIRED = re.compile(r"\bEXPIRED\b", re.IGNORECASE)

MAY_STILL_BOUNCE = (
    *(RecipientState.DELIVERED, RecipientState.UNCERTAIN, RecipientState.QUEUED),
    *(RecipientState.PAUSED, RecipientState.HELD),
)
"""States of an attempted email that a DSN may turn into a bounce. One that is uncertain, or queued or paused after an
attempt, had arrived at a mail server whose answer was lost; one that is held was sent since the backup was made."""
COUNTED_AS_DELIVERED = (RecipientState.DELIVERED, RecipientState.SENT)


class Bounce(NamedTuple):
    """A bounce, whether the relay, a DSN or a gateway's receipt reported it. A soft one blocks its address only after
    several in a row; `blocks` is whether it blocks its address at once."""

    diagnostic: str
    reason: str
    is_soft: bool
    blocks: bool

    @property
    def event_fields(self) -> dict[str, str | bool]:
        """The fields of the event `bounced` (docs/webhooks.md#events)."""
        return {
            "bounce_reason": self.reason,
            "bounce_string": self.diagnostic,
            "is_temporary_bounce": self.is_soft,
        }

    @classmethod
    def of_result(cls, result: DeliveryResult) -> Bounce:
        """The bounce of a mail that was refused, or deferred until the end of the retry period."""
        is_soft, diagnostic = result.outcome is not Outcome.REFUSED, bounce_string(result.reply, result.status)
        return cls(diagnostic, bounce_reason(result.status), is_soft, refuses_address(result))

    @classmethod
    def of_dsn(cls, diagnostic: str, status: str | None) -> Bounce:
        """The bounce that a DSN, or an event of a relay, reports."""
        is_soft = (status or "").startswith("4")
        blocks = not is_soft and blocks_address(diagnostic, status)
        return cls(bounce_string(diagnostic, status), bounce_reason(status), is_soft, blocks)

    @classmethod
    def of_receipt(cls, detail: str) -> Bounce:
        """The bounce that the receipt of a text message reports."""
        if _EXPIRED.search(detail):
            return cls(detail, "delivery time expired", is_soft=True, blocks=False)
        return cls(detail, OTHER_REASON, is_soft=False, blocks=blocks_number(detail))


def bounce_string(reply: str, status: str | None) -> str:
    """The other side's reply, which names its RFC 3463 code or is followed by it (docs/webhooks.md#events)."""
    if not status or status in reply:
        return reply
    return f"{reply} ({status})".lstrip()


def bounce_reason(status: str | None) -> str:
    """The kind of a bounce in words, from its RFC 3463 code."""
    subject = (status or "").split(".")[1:2]
    return BOUNCE_REASONS.get(subject[0], OTHER_REASON) if subject else OTHER_REASON
