"""The connection slots of one transport in a sender worker, with the threads that send over them.

A thread takes the most recently used free slot, so that an idle service keeps one connection open and not all of them.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from app.infrastructure.metric_kinds import Measurement
from app.infrastructure.metrics import TRANSPORT_BACKOFFS, TRANSPORT_SET_ASIDE, TRANSPORT_SLOTS
from app.sends.delivery.connection_slots import ConnectionSlot
from app.sends.delivery.turns import Turns
from app.transports.availability import Availability
from app.transports.base import DeliveryResult, Untaken

AHEAD = 0.5
"""Seconds of work that may be queued for a transport of a route; the rest is due again in its turn."""
LEAST_SECONDS = 0.0005
LEAST_STEP = 0.02


class TransportPool:
    """One per transport of a sender worker; `rate` is in messages per second, of all workers together."""

    def __init__(
        self, name: str, make_slot: Callable[[], ConnectionSlot], connections: int, rate: float | None = None
    ) -> None:
        self.name = name
        self.connections = connections
        self.rate = rate
        self.executor = ThreadPoolExecutor(connections, thread_name_prefix="send")
        self.availability = Availability(f"transport {name}")
        self.turns = Turns()
        self.seconds = 0.0
        """Duration of the latest message; 0 before the first."""
        self._slots: queue.LifoQueue[ConnectionSlot] = queue.LifoQueue()
        for _ in range(connections):
            self._slots.put(make_slot())
        self._is_closed = False
        TRANSPORT_SLOTS.add_source(self.slots_measured)
        TRANSPORT_SET_ASIDE.add_source(self.set_aside_measured)

    def slots_measured(self) -> Measurement:
        """For the gauge of connections."""
        if self._is_closed:
            return {}
        return {(self.name, "in_use"): self.connections - self._slots.qsize(), (self.name, "all"): self.connections}

    def set_aside_measured(self) -> Measurement:
        """For the gauge of transports that this process sends nothing to now."""
        return {} if self._is_closed else {(self.name,): float(self.availability.is_backed_off)}

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
            self._slots.put(slot)

    @property
    def room(self) -> int:
        """Messages that leave soon, at the pace of the latest one: at least one for each connection."""
        return max(self.connections, int(self.connections * AHEAD / max(self.seconds, LEAST_SECONDS)))

    @property
    def step(self) -> float:
        """Seconds between two turns of an account."""
        return max(LEAST_STEP, self.seconds / self.connections, 1 / self.rate if self.rate else 0.0)

    def report(self, result: DeliveryResult | None) -> None:
        """Records the answer to a message of a route; None if nothing was sent after all."""
        if result is None:
            self.availability.cancel()
        elif self.availability.report(reached=result.untaken is not Untaken.TRANSPORT):
            TRANSPORT_BACKOFFS.labels(self.name).inc()

    def close(self) -> None:
        """Closes threads and connections; waits for messages in flight."""
        self._is_closed = True
        self.executor.shutdown()
        for _ in range(self.connections):
            self._slots.get().close()
