"""The client connections of a process. Several threads use them, and each connection belongs to one thread at a time.

A connection that waits for its client belongs to no thread. The thread that takes it owns it until it waits again or is
closed: the one to which the poller reports it, or the one that expires it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from app.http.server.connection import Connection, ConnectionState
from app.http.server.poller import Poller

INCOMING = (ConnectionState.HEAD, ConnectionState.BODY)
DISPENSABLE = (ConnectionState.IDLE, ConnectionState.HEAD, ConnectionState.LINGERING)
"""States of connections that are closed at the end of the process; a body that is being sent may still arrive."""


class Connections:
    """`on_count` is called with the number of connections at each change of it, under the lock."""

    def __init__(self, poller: Poller, max_buffered: int, on_count: Callable[[int], object]) -> None:
        self._poller = poller
        self._max_buffered = max_buffered
        self._on_count = on_count
        self._lock = threading.Lock()
        self._by_descriptor: dict[int, Connection] = {}
        # Those that wait for their client, the longest waiting first, including those from which a thread reads a
        # further part.
        self._awaiting_client: dict[Connection, None] = {}
        self._buffered = 0

    @property
    def count(self) -> int:
        """Open connections."""
        return len(self._by_descriptor)

    # ------------------------------------------------------------------------------------------ owners

    def add(self, connection: Connection) -> None:
        """Adds an accepted connection, which waits for its first request."""
        with self._lock:
            self._by_descriptor[connection.descriptor] = connection
            self._awaiting_client[connection] = None
            self._poller.add(connection.descriptor)
            connection.is_waiting = True
            self._on_count(len(self._by_descriptor))

    def wait(self, connection: Connection, *, writing: bool = False) -> None:
        """Ends the caller's ownership: the connection waits until its client sends, or reads, something."""
        with self._lock:
            self._awaiting_client[connection] = None
            self._poller.arm(connection.descriptor, writing=writing)
            connection.is_waiting = True

    def take(self, descriptor: int) -> Connection | None:
        """The connection that the poller has reported; None if another thread has taken it since."""
        with self._lock:
            return self._take(self._by_descriptor.get(descriptor))

    def take_oldest(self) -> Connection | None:
        """The one that has waited longest for its client."""
        with self._lock:
            return self._take(next(self._waiting(), None))

    def take_largest(self) -> Connection | None:
        """While too much is buffered, the connection with the most bytes of an incomplete request; they no longer
        count. None also if another thread reads from it: that thread checks, too."""
        with self._lock:
            if self._buffered <= self._max_buffered:
                return None
            incoming = (one for one in self._awaiting_client if one.state in INCOMING)
            largest = self._take(max(incoming, key=lambda one: one.size, default=None))
            if largest is not None:
                self._drop_bytes(largest)
            return largest

    def take_expired(self, now: float) -> list[Connection]:
        """Those past their deadline."""
        with self._lock:
            expired = [one for one in self._waiting() if one.deadline < now]
            return [one for one in expired if self._take(one)]

    def _waiting(self) -> Iterator[Connection]:
        return (one for one in self._awaiting_client if one.is_waiting)

    @staticmethod
    def _take(connection: Connection | None) -> Connection | None:
        if connection is None or not connection.is_waiting:
            return None
        connection.is_waiting = False
        return connection

    def cap_deadlines(self, deadline: float) -> None:
        """At the end of the process."""
        with self._lock:
            for one in self._waiting():
                if one.state in DISPENSABLE:
                    one.deadline = min(one.deadline, deadline)

    # ------------------------------------------------------------------------------------------ by the owner

    def received(self, connection: Connection, count: int) -> bool:
        """Counts received bytes; True if too many are buffered."""
        with self._lock:
            self._buffered += count
            connection.size += count
            return self._buffered > self._max_buffered

    def complete(self, connection: Connection) -> None:
        """The connection no longer waits for its client."""
        with self._lock:
            self._awaiting_client.pop(connection, None)

    def end_request(self, connection: Connection) -> None:
        """Called after the response; what arrived after the request stays buffered."""
        connection.end_request()
        with self._lock:
            self._buffered += connection.buffered - connection.size
            connection.size = connection.buffered

    def drop_bytes(self, connection: Connection) -> None:
        """Subtracts the buffered part of a refused request, which was dropped."""
        with self._lock:
            self._drop_bytes(connection)

    def _drop_bytes(self, connection: Connection) -> None:
        self._buffered -= connection.size
        connection.size = 0

    def close(self, connection: Connection) -> None:
        """Closes it, unless it is closed."""
        with self._lock:
            if self._by_descriptor.get(connection.descriptor) is not connection:
                return
            del self._by_descriptor[connection.descriptor]
            self._awaiting_client.pop(connection, None)
            self._buffered -= connection.size
            self._poller.remove(connection.descriptor)
            connection.close()
            self._on_count(len(self._by_descriptor))
