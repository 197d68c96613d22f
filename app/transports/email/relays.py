"""Several relays: a message goes to the first healthy one; a relay that cannot be reached is backed off.

Health belongs to the transport, so that all connections of a process share it. When a back-off ends, one message
probes the relay while the others still skip it: a relay that drops packets delays only one connection. If the
probe fails, the back-off doubles, up to five minutes; a relay that answers is healthy again. While all are backed off,
the one whose back-off ends first is tried, so that no message waits in vain.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from app.transports.base import DeliveryResult, OutboundEmail, wait_only
from app.transports.email.smtp import SmtpConnection, SmtpTransport

logger = logging.getLogger(__name__)

FIRST_BACKOFF = 5.0
MAX_BACKOFF = 300.0


class Relay:
    """One relay and its health; threads share it."""

    def __init__(self, transport: SmtpTransport, clock: Callable[[], float]) -> None:
        self.transport = transport
        self.backoff_until = 0.0
        self._backoff = FIRST_BACKOFF
        self._probing = False
        self._clock = clock
        self._lock = threading.Lock()

    def is_available(self) -> bool:
        """Whether a message may be sent there: the relay is healthy, or this message is the probe."""
        with self._lock:
            if self._backoff == FIRST_BACKOFF:
                return True
            if self._probing or self._clock() < self.backoff_until:
                return False
            self._probing = True
            return True

    def report(self, *, reached: bool) -> None:
        """Records whether a message could open a session. Several connections that fail together count once."""
        with self._lock:
            self._probing = False
            if reached:
                self._backoff, self.backoff_until = FIRST_BACKOFF, 0.0
            elif self._clock() >= self.backoff_until:
                self.backoff_until = self._clock() + self._backoff
                settings = self.transport.settings
                logger.warning("relay %s:%s is backed off for %s s", settings.host, settings.port, self._backoff)
                self._backoff = min(self._backoff * 2, MAX_BACKOFF)


class RelayTransport:
    """Relays in order of preference."""

    def __init__(self, transports: Sequence[SmtpTransport], clock: Callable[[], float] = time.monotonic) -> None:
        self._relays = [Relay(transport, clock) for transport in transports]
        self._clock = clock

    def connect(self) -> RelayConnection:
        """A connection for one thread."""
        return RelayConnection([(relay, relay.transport.connect()) for relay in self._relays], self._clock)


class RelayConnection:
    """At most one session with each relay at a time."""

    pipelines: Literal[True] = True

    def __init__(self, relays: Sequence[tuple[Relay, SmtpConnection]], clock: Callable[[], float]) -> None:
        self._relays = relays
        self._clock = clock

    def send(
        self,
        message: OutboundEmail,
        following: OutboundEmail | None = None,
        while_waiting: Callable[[], None] = wait_only,
        /,
    ) -> DeliveryResult:
        """Sends the message over the first relay that can be reached.

        A relay is skipped only if no session can be opened or it accepts no message now. One that defers only this
        sender is skipped without a back-off, because it still accepts messages of others. Once a relay has answered to
        the recipient, its reply is final: a second relay could deliver a message that the first has accepted.
        """
        result = DeliveryResult.deferred("no relay")
        for relay, connection in self._candidates():
            connection.reached = connection.refuses_sender = False
            try:
                result = connection.send(message, following, while_waiting)
            finally:
                relay.report(reached=connection.reached or connection.refuses_sender)
            if connection.reached:
                self._abort_on_others(connection)
                break
        return result

    def _abort_on_others(self, chosen: SmtpConnection) -> None:
        """Another relay may wait for the content of a pipelined message, which this one has sent."""
        for _, connection in self._relays:
            if connection is not chosen:
                connection.abort_pipelined()

    def close(self) -> None:
        """Ends all sessions with QUIT."""
        for _, connection in self._relays:
            connection.close()

    def _candidates(self) -> Iterator[tuple[Relay, SmtpConnection]]:
        """The available relays by preference; if there are none, the one whose back-off ends first."""
        found_any = False
        for relay, connection in self._relays:
            if relay.is_available():
                found_any = True
                yield relay, connection
        if not found_any:
            yield min(self._relays, key=lambda pair: pair[0].backoff_until)
