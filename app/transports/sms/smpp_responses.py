"""The responses of a gateway that sending threads wait for. The sending threads and the reading one share it."""

from __future__ import annotations

import queue
import threading
from typing import Any


class PendingResponses:
    """Sequence number -> the queue in which a thread waits for the response."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[int, queue.SimpleQueue[Any]] = {}

    def expect(self, sequence: int) -> queue.SimpleQueue[Any]:
        """The queue that will receive the response; called before the request is sent."""
        responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            self._queues[sequence] = responses
        return responses

    def forget(self, sequence: int) -> None:
        """Stops waiting for a response."""
        with self._lock:
            self._queues.pop(sequence, None)

    def resolve(self, pdu: Any) -> None:
        """Wakes the thread that waits for this response, if there is one."""
        with self._lock:
            responses = self._queues.get(pdu.sequence)
        if responses is not None:
            responses.put(pdu)

    def cancel_all(self) -> None:
        """Wakes all waiting threads with None, because the connection is lost."""
        with self._lock:
            waiting = list(self._queues.values())
        for responses in waiting:
            responses.put(None)
