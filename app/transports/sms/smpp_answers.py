"""Who waits for which answer of a gateway. Threads that send, and the one that reads, share it."""

from __future__ import annotations

import queue
import threading
from typing import Any


class Answers:
    """Sequence number -> where its sender waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Any]] = {}

    def expect(self, sequence: int) -> queue.SimpleQueue[Any]:
        """The place of the answer, before the question goes out."""
        place: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            self._waiting[sequence] = place
        return place

    def forget(self, sequence: int) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._waiting.pop(sequence, None)

    def give(self, pdu: Any) -> None:
        """Wakes who waits for it, if anybody does."""
        with self._lock:
            place = self._waiting.get(pdu.sequence)
        if place is not None:
            place.put(pdu)

    def give_up(self) -> None:
        """The connection is gone: tells all who wait that no answer will come, by None."""
        with self._lock:
            places = list(self._waiting.values())
        for place in places:
            place.put(None)
