"""Connection slots: the connections that a thread sends over, and sending a message and its blind copy over them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from app.recipients.redaction import Redaction
from app.sends.delivery.build import BuiltMessage
from app.transports.base import (
    Connection,
    DeliveryResult,
    OutboundEmail,
    OutboundSms,
    Outcome,
    PipeliningConnection,
    wait_only,
)

logger = logging.getLogger(__name__)

QUICK_REPLY = 0.005
"""Seconds within which a quick connection answers: waiting costs less than starting another thread."""
STEADY_REPLY = 0.25
"""Seconds; the next message may be pipelined behind one that takes no longer."""


@dataclass(slots=True)
class ConnectionSlot:
    """The connections that one thread at a time uses. They are opened by their first message."""

    email: Connection[OutboundEmail]
    sms: Connection[OutboundSms]
    seconds: float = math.inf
    """Duration of the last message."""
    transport: str | None = None
    """Name of the transport; None for the default ones."""
    redaction: Redaction | None = None
    """That of the transport's replies, if it is not the installation's."""
    pipelining: PipeliningConnection | None = field(init=False)
    """The mail connection, if it supports pipelining."""

    def __post_init__(self) -> None:
        self.pipelining = self.email if isinstance(self.email, PipeliningConnection) else None

    @property
    def is_quick(self) -> bool:
        """Whether the next answer is expected at once."""
        return self.seconds <= QUICK_REPLY

    @property
    def is_steady(self) -> bool:
        """Whether the next answer is expected soon."""
        return self.seconds <= STEADY_REPLY

    def close(self) -> None:
        """Closes both connections. Raises nothing, whatever an installed transport does."""
        self.seconds = math.inf
        for connection in (self.email, self.sms):
            try:
                connection.close()
            except BaseException:
                logger.exception("a connection cannot be closed")


class NoConnection:
    """In a slot of a transport that sends the other type of messages only."""

    def send(self, message: object, /) -> DeliveryResult:
        """Never called: routes have the type of their transports."""
        raise TypeError(f"no connection for a {type(message).__name__}")

    def close(self) -> None:
        """Nothing was opened."""


def id_at(transport: str | None, gateway_id: str) -> str:
    """A gateway's id in the form in which it is stored: two gateways may give the same one to different messages."""
    return gateway_id if transport is None else f"{transport}:{gateway_id}"


def send_over(
    slot: ConnectionSlot,
    built: BuiltMessage,
    following: BuiltMessage | None = None,
    while_waiting: Callable[[], None] = wait_only,
) -> DeliveryResult:
    """Sends the message; `following` is the message that the slot sends next, if it is known. `while_waiting` may be
    called before the answer to the message is read."""
    match built.message:
        case OutboundEmail() as email:
            next_message = following.message if following else None
            if slot.pipelining and isinstance(next_message, OutboundEmail):
                return slot.pipelining.send(email, next_message, while_waiting)
            return slot.email.send(email)
        case OutboundSms() as text:
            return slot.sms.send(text)
        case DeliveryResult() as result:
            return result
    raise TypeError(f"a {type(built.message).__name__} is no message")


def send_copy(slot: ConnectionSlot, copy: OutboundEmail) -> str:
    """Sends the blind copy of an accepted message. Returns a text to add to the reply, empty if the copy is accepted.

    A copy never changes the result of its message and is not retried: a message has only one result.
    """
    try:
        result = slot.email.send(copy)
        failure = "" if result.outcome is Outcome.ACCEPTED else str(result.reply)
    except BaseException:
        # As for the message itself: an installed transport may raise anything.
        logger.exception("cannot send the copy", extra={"uuid": copy.uuid})
        slot.close()
        failure = "internal fault"
    return failure and f"; no copy to {copy.to}: {failure}"
