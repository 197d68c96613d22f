"""Limits how many requests are answered at once; the others wait for a thread in the order in which they became
complete."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from app.http.server.connection import Connection
from app.http.server.request import Request


@dataclass(slots=True)
class PendingRequest:
    """A complete request and the connection to which its response goes; without a request, a streamed response that is
    to be continued."""

    connection: Connection
    request: Request | None
    since: float = field(default_factory=time.monotonic)


class Admission:
    """At most `most` requests have a thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[PendingRequest] = deque()

    def enter(self, pending: PendingRequest) -> bool:
        """Whether the caller is to answer the request; otherwise it waits, and a thread that has answered another one
        takes it."""
        with self._lock:
            if self._running < self._most:
                self._running += 1
                return True
            self._waiting.append(pending)
            return False

    def append(self, pending: PendingRequest) -> None:
        """Makes the request wait behind the others. For a caller that has entered and will call `leave`."""
        with self._lock:
            self._waiting.append(pending)

    def leave(self) -> PendingRequest | None:
        """The caller has answered its request; returns the next one that it is to answer, or None if none waits."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None

    def take_overdue(self, before: float) -> list[PendingRequest]:
        """Removes the requests that have waited since before that time."""
        with self._lock:
            overdue = []
            while self._waiting and self._waiting[0].since < before:
                overdue.append(self._waiting.popleft())
            return overdue
