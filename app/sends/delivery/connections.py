"""The connections of a sender worker to one transport, the threads that send over them, and the turns of accounts at
it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.clock import now
from app.infrastructure.metric_kinds import Measurement
from app.infrastructure.metrics import TRANSPORT_BACKOFFS, TRANSPORT_SET_ASIDE, TRANSPORT_SLOTS
from app.infrastructure.sender_share import SenderShare
from app.recipients.redaction import Redaction
from app.transports.base import (
    Availability,
    BindingTransport,
    Connection,
    DeliveryResult,
    OutboundEmail,
    OutboundSms,
    Outcome,
    PipeliningConnection,
    Transport,
    Untaken,
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
    """What redacts the transport's replies, if it is not the installation's redaction."""
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
    """Stands in a slot for the connection of the type of messages that the slot's transport does not send."""

    def send(self, message: object, /) -> DeliveryResult:
        """Refuses to send. It is never called: routes have the type of their transports."""
        raise TypeError(f"no connection for a {type(message).__name__}")

    def close(self) -> None:
        """Nothing was opened."""


def id_at(transport: str | None, gateway_id: str) -> str:
    """A gateway's id in the form in which it is stored: two gateways may give the same one to different messages."""
    return gateway_id if transport is None else f"{transport}:{gateway_id}"


def send_over(
    slot: ConnectionSlot,
    message: OutboundEmail | OutboundSms,
    following: OutboundEmail | OutboundSms | None = None,
    while_waiting: Callable[[], None] = wait_only,
) -> DeliveryResult:
    """Sends the message; `following` is the message that the slot sends next, if it is known. `while_waiting` may be
    called before the answer to the message is read."""
    if isinstance(message, OutboundSms):
        return slot.sms.send(message)
    if slot.pipelining and isinstance(following, OutboundEmail):
        return slot.pipelining.send(message, following, while_waiting)
    return slot.email.send(message)


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


MAX_AHEAD = 300.0
"""Seconds; a transport may be quicker by then."""
MAX_ACCOUNTS = 10_000


class Turns:
    """The turns at one transport in one worker; one thread at a time uses it."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        """Account -> its last turn, by the monotonic clock."""

    def next(self, account_id: int, step: float) -> datetime:
        """The next turn of the account, at least `step` seconds behind the one before."""
        moment = time.monotonic()
        turn = min(max(self._last.get(account_id, moment), moment) + step, moment + MAX_AHEAD)
        if len(self._last) >= MAX_ACCOUNTS:
            self._last = {account: last for account, last in self._last.items() if last > moment}
        self._last[account_id] = turn
        return now() + timedelta(seconds=turn - moment)


QUEUED_SECONDS = 0.5
"""Seconds of work that may be queued for a transport of a route; the rest is due again in its turn."""
MIN_SECONDS = 0.0005
MIN_STEP = 0.02


class Limits(NamedTuple):
    """What all processes that send may use of a transport together; None is no limit."""

    connections: int | None = None
    binds: int | None = None
    """Binds to an SMPP gateway, of which a process has one at most."""
    rate: float | None = None
    """Messages per second."""


def binds_of(transport: Transport[Any]) -> int | None:
    """How many binds all processes may have together; None is no limit."""
    return transport.binds if isinstance(transport, BindingTransport) else None


def share_binds(transport: Transport[Any], share: SenderShare) -> None:
    """Makes the transport keep its bind only while it is among this process's share."""
    if isinstance(transport, BindingTransport) and (binds := transport.binds) is not None:
        transport.bind_while(lambda: share.connections(binds) > 0)


class TransportPool:
    """The connections of a sender worker to a transport: at most `connections`, and its share of what all processes may
    use together."""

    def __init__(
        self,
        name: str,
        make_slot: Callable[[], ConnectionSlot],
        connections: int,
        share: SenderShare,
        limits: Limits,
    ) -> None:
        self.name = name
        self.rate = limits.rate
        self._share = share
        self._limits = limits
        self._most = connections
        self.availability = Availability(f"transport {name}")
        self.turns = Turns()
        self.seconds = 0.0
        """Duration of the latest message; 0 before the first."""
        self._slots: queue.LifoQueue[ConnectionSlot] = queue.LifoQueue()
        for _ in range(connections):
            self._slots.put(make_slot())
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        TRANSPORT_SLOTS.add_source(self.slots_measured)
        TRANSPORT_SET_ASIDE.add_source(self.set_aside_measured)

    @property
    def is_shared(self) -> bool:
        """Whether this process has only a share of its connections or binds."""
        return self._limits.connections is not None or self._limits.binds is not None

    @property
    def connections(self) -> int:
        """How many connections this process may use now."""
        total = self._limits.connections
        return self._most if total is None else min(self._most, self._share.connections(total))

    def sends(self, message_type: str) -> bool:
        """Whether this process may send messages of that type now: otherwise others have all connections or binds."""
        binds = self._limits.binds if message_type == "sms" else None
        return self.connections > 0 and (binds is None or self._share.connections(binds) > 0)

    def slots_measured(self) -> Measurement:
        """For the gauge of connections."""
        if self._is_closed:
            return {}
        return {(self.name, "in_use"): self._most - self._slots.qsize(), (self.name, "all"): self.connections}

    def set_aside_measured(self) -> Measurement:
        """For the gauge of transports that this process sends nothing to now."""
        return {} if self._is_closed else {(self.name,): float(self.availability.is_backed_off)}

    def start_thread(self, work: Callable[[], None]) -> None:
        """Does the work in a thread, for one dispatcher at a time. Raises `RuntimeError` if no memory is left for it.
        After that, a `ThreadPoolExecutor` would still do the work once, and have one thread less from then on."""
        thread = threading.Thread(target=work, name="send")
        thread.start()
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    @contextlib.contextmanager
    def slot(self) -> Iterator[ConnectionSlot]:
        """A free connection slot, which no other thread uses meanwhile."""
        slot = self._slots.get()
        try:
            yield slot
        except BaseException:
            slot.close()
            raise
        finally:
            if self._most - self._slots.qsize() > self.connections:
                slot.close()
            self._slots.put(slot)

    def close_others(self) -> None:
        """Closes the connections that this process may not use now; called between two drains."""
        if not self.is_shared:
            return
        slots = [self._slots.get() for _ in range(self._most)]
        for slot in slots[self.connections :]:
            slot.close()
        for slot in reversed(slots):
            self._slots.put(slot)

    @property
    def room(self) -> int:
        """Messages that leave soon, at the pace of the latest one: at least one for each connection."""
        return max(self.connections, int(self.connections * QUEUED_SECONDS / max(self.seconds, MIN_SECONDS)))

    @property
    def step(self) -> float:
        """Seconds between two turns of an account."""
        return max(MIN_STEP, self.seconds / (self.connections or 1), 1 / self.rate if self.rate else 0.0)

    def report(self, result: DeliveryResult | None) -> None:
        """Records the answer to a message of a route; None if nothing was sent after all."""
        if result is None:
            self.availability.cancel()
        elif self.availability.report(reached=result.untaken is not Untaken.TRANSPORT):
            TRANSPORT_BACKOFFS.labels(self.name).inc()

    def close(self) -> None:
        """Closes threads and connections; waits for messages in flight."""
        self._is_closed = True
        while self._threads:  # which may start others
            self._threads.pop().join()
        for _ in range(self._most):
            self._slots.get().close()
