"""Several relays: a message goes to the first available one; a relay that cannot be reached is backed off.

Availability belongs to the transport, so that all connections of a process share it (app/transports/base.py).
While all relays are backed off, the one whose back-off ends first is tried, so that no message waits in vain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from app.transports.base import Availability, DeliveryResult, OutboundEmail, wait_only
from app.transports.email.smtp import SmtpConnection, SmtpTransport


class Relay(Availability):
    """One relay and its availability; threads share it."""

    def __init__(self, transport: SmtpTransport, clock: Callable[[], float]) -> None:
        super().__init__(f"relay {transport.settings.host}:{transport.settings.port}", clock)
        self.transport = transport


class RelayTransport:
    """Relays in order of preference."""

    def __init__(self, transports: Sequence[SmtpTransport], clock: Callable[[], float] = time.monotonic) -> None:
        self._relays = [Relay(transport, clock) for transport in transports]

    def connect(self) -> RelayConnection:
        """A connection for one thread."""
        return RelayConnection([(relay, relay.transport.connect()) for relay in self._relays])


class RelayConnection:
    """A connection to a group of relays, with at most one session with each relay at a time."""

    pipelines: Literal[True] = True

    def __init__(self, relays: Sequence[tuple[Relay, SmtpConnection]]) -> None:
        self._relays = relays

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
        """Aborts a pipelined message on the other relays: one may wait for the content, which this relay has sent."""
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
            if relay.begin():
                found_any = True
                yield relay, connection
        if not found_any:
            yield min(self._relays, key=lambda pair: pair[0].backoff_until)
