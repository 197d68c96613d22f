"""Several relays: a message goes to the first that is well; one that cannot be reached is set aside for a while.

Health belongs to the transport, so all connections of a process learn from the trouble of one. When its time is over
one message finds out whether the relay is back, while the others still pass it by: a relay that swallows packets holds
up one connection and not all. If it fails again it is set aside for twice as long, up to five minutes; one that
answers is well again. While all are set aside, the one whose time ends first is asked, so that no message waits for
nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from app.transports.base import DeliveryResult, OutboundEmail
from app.transports.email.smtp import SmtpConnection, SmtpTransport

logger = logging.getLogger(__name__)

FIRST_REST = 5.0
LONGEST_REST = 300.0


class Relay:
    """One relay and its health; threads share it."""

    def __init__(self, transport: SmtpTransport, clock: Callable[[], float]) -> None:
        self.transport = transport
        self.rests_until = 0.0
        self._rest = FIRST_REST
        self._asked = False
        self._clock = clock
        self._lock = threading.Lock()

    def takes(self) -> bool:
        """Whether a message may go there: the relay is well, or this message is the one that finds out."""
        with self._lock:
            if self._rest == FIRST_REST:
                return True
            if self._asked or self._clock() < self.rests_until:
                return False
            self._asked = True
            return True

    def note(self, *, reached: bool) -> None:
        """Whether a message found a session there. Several connections that fail together count once."""
        with self._lock:
            self._asked = False
            if reached:
                self._rest, self.rests_until = FIRST_REST, 0.0
            elif self._clock() >= self.rests_until:
                self.rests_until = self._clock() + self._rest
                settings = self.transport.settings
                logger.warning("relay %s:%s is set aside for %s s", settings.host, settings.port, self._rest)
                self._rest = min(self._rest * 2, LONGEST_REST)


class RelayTransport:
    """Relays in the order of preference."""

    def __init__(self, transports: Sequence[SmtpTransport], clock: Callable[[], float] = time.monotonic) -> None:
        self._relays = [Relay(transport, clock) for transport in transports]
        self._clock = clock

    def connect(self) -> RelayConnection:
        """A connection of the caller's own."""
        return RelayConnection([(relay, relay.transport.connect()) for relay in self._relays], self._clock)


class RelayConnection:
    """At most one session with each relay at a time."""

    announces: Literal[True] = True

    def __init__(self, ways: Sequence[tuple[Relay, SmtpConnection]], clock: Callable[[], float]) -> None:
        self._ways = ways
        self._clock = clock

    def send(self, message: OutboundEmail, following: OutboundEmail | None = None, /) -> DeliveryResult:
        """Hand the message to the first relay that can be reached.

        Only a relay with which no session comes about, or which takes no message now, is passed over. One that puts off
        this sender alone is passed over, too, and not set aside: others' messages are no worse off there. Once one has
        listened to whom the message is for, its answer counts: a second opinion could deliver what the first has taken.
        """
        result = DeliveryResult.deferred("no relay")
        for relay, connection in self._in_turn():
            connection.reached = connection.refuses_sender = False
            try:
                result = connection.send(message, following)
            finally:
                relay.note(reached=connection.reached or connection.refuses_sender)
            if connection.reached:
                self._leave_others(connection)
                break
        return result

    def _leave_others(self, chosen: SmtpConnection) -> None:
        """Another relay may wait for the message that has gone this way."""
        for _, connection in self._ways:
            if connection is not chosen:
                connection.leave()

    def close(self) -> None:
        """End all sessions politely."""
        for _, connection in self._ways:
            connection.close()

    def _in_turn(self) -> Iterator[tuple[Relay, SmtpConnection]]:
        """The relays that are well, by preference; of resting ones only the next to return, when none is well."""
        asked = False
        for way in self._ways:
            if way[0].takes():
                asked = True
                yield way
        if not asked:
            yield min(self._ways, key=lambda way: way[0].rests_until)
