"""The connections that a thread sends over, and how a message and its blind copy go over them."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from app.sends.delivery.build import BuiltMessage
from app.transports.base import Connection, DeliveryResult, OutboundEmail, OutboundSms, Outcome, PipeliningConnection

logger = logging.getLogger(__name__)

QUICK = 0.005
"""Seconds within which the carrier's answer comes over a quick connection: waiting costs less than another thread."""
STEADY = 0.25
"""Seconds; a message may be announced behind one that takes no longer."""


@dataclass(slots=True)
class ConnectionSlot:
    """The connections that one thread uses at a time. They open at their first message."""

    email: Connection[OutboundEmail]
    sms: Connection[OutboundSms]
    seconds: float = math.inf
    """What the last message took."""
    announcing: PipeliningConnection | None = field(init=False)
    """The connection for mail, where it can announce."""

    def __post_init__(self) -> None:
        self.announcing = self.email if isinstance(self.email, PipeliningConnection) else None

    @property
    def is_quick(self) -> bool:
        """Whether the next answer is expected at once."""
        return self.seconds <= QUICK

    @property
    def is_steady(self) -> bool:
        """Whether the next answer is expected soon."""
        return self.seconds <= STEADY

    def close(self) -> None:
        """Ends both. Raises nothing, whatever an installed transport does."""
        self.seconds = math.inf
        for connection in (self.email, self.sms):
            try:
                connection.close()
            except BaseException:
                logger.exception("a connection cannot be closed")


def send_over(lane: ConnectionSlot, outgoing: BuiltMessage, following: BuiltMessage | None) -> DeliveryResult:
    """Hands the message over; `following` is what the lane sends next, where that is known."""
    match outgoing.message:
        case OutboundEmail() as email:
            upcoming = following.message if following else None
            if lane.announcing and isinstance(upcoming, OutboundEmail):
                return lane.announcing.send(email, upcoming)
            return lane.email.send(email)
        case OutboundSms() as text:
            return lane.sms.send(text)
        case DeliveryResult() as result:
            return result
    raise TypeError(f"a {type(outgoing.message).__name__} is no message")


def send_copy(lane: ConnectionSlot, copy: OutboundEmail) -> str:
    """Sends the blind copy of a message that was accepted; what to add to the reply, nothing when all is well.

    It never decides about the message, and what it meets is not tried again: the message has only one result.
    """
    try:
        result = lane.email.send(copy)
        said = "" if result.outcome is Outcome.ACCEPTED else str(result.reply)
    except BaseException:
        # As for the message itself: an installed transport may raise anything.
        logger.exception("cannot send the copy", extra={"uuid": copy.uuid})
        lane.close()
        said = "internal fault"
    return said and f"; no copy to {copy.to}: {said}"
