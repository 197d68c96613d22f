"""The client connections of a process, the account of what is held for them, and what their threads wait at. Several
threads use them, and each connection belongs to one thread at a time.

A connection that waits for its client belongs to no thread. The thread that takes it owns it until it waits again or is
closed: the one to which the poller reports it, or the one that expires it.

When there are too many connections, or too much is held for them, those go of the address that has the most.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from app.http.server.connection import Connection, ConnectionState

WAKE_BYTES = 4096


class Poller(Protocol):
    """Sockets that several threads wait for at once: each readiness is reported to one thread, and once.

    A socket is reported after it has been armed, and must be armed again for its next report. So the thread that gets a
    report is the only one that touches the socket until it arms it. Its methods may be called by any thread at any
    time.
    """

    def add(self, descriptor: int) -> None:
        """Adds a socket, armed for reading."""

    def arm(self, descriptor: int, *, writing: bool) -> None:
        """Reports the socket to one thread when it is writable, or else readable, or broken."""

    def remove(self, descriptor: int) -> None:
        """Removes a socket; to be called before it is closed."""

    def poll(self) -> int | None:
        """Waits for the next report; None after `wake`."""

    def wake(self) -> None:
        """Makes one call of `poll` return None."""


class _Pipe:
    """Readable from a call of `write` until `read`."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        for descriptor in (self.descriptor, self._writing):
            os.set_blocking(descriptor, False)

    def write(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full, so readable
            os.write(self._writing, b"\0")

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, WAKE_BYTES)


if hasattr(select, "epoll"):

    class EpollPoller:
        """Linux: the kernel wakes one of the threads that wait, so that none has to wake another."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._pipe = _Pipe()
            self.add(self._pipe.descriptor)

        def add(self, descriptor: int) -> None:
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

        def arm(self, descriptor: int, *, writing: bool) -> None:
            self._epoll.modify(descriptor, (select.EPOLLOUT if writing else select.EPOLLIN) | select.EPOLLONESHOT)

        def remove(self, descriptor: int) -> None:
            self._epoll.unregister(descriptor)

        def poll(self) -> int | None:
            while True:
                for descriptor, _ in self._epoll.poll(None, 1):
                    if descriptor != self._pipe.descriptor:
                        return int(descriptor)
                    self._pipe.read()
                    self.arm(descriptor, writing=False)
                    return None

        def wake(self) -> None:
            self._pipe.write()


class SelectorPoller:
    """Other systems: the threads take turns at a selector, which may be changed while one of them waits for it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._turn = threading.Lock()
        self._changing = threading.Lock()
        self._ready: deque[int] = deque()
        self._pipe = _Pipe()
        self.add(self._pipe.descriptor)

    def add(self, descriptor: int) -> None:
        self.arm(descriptor, writing=False)

    def arm(self, descriptor: int, *, writing: bool) -> None:
        events = selectors.EVENT_WRITE if writing else selectors.EVENT_READ
        with self._changing:
            if descriptor in self._selector.get_map():
                self._selector.modify(descriptor, events)
            else:
                self._selector.register(descriptor, events)

    def remove(self, descriptor: int) -> None:
        with self._changing:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def poll(self) -> int | None:
        with self._turn:
            while not self._ready:
                for key, _ in self._selector.select():
                    self.remove(key.fd)
                    self._ready.append(key.fd)
            descriptor = self._ready.popleft()
            if descriptor != self._pipe.descriptor:
                return descriptor
            self._pipe.read()
            self.add(descriptor)
            return None

    def wake(self) -> None:
        self._pipe.write()


def make_poller() -> Poller:
    """The poller for this system."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()


RELIEF_DIVISOR = 64
"""When too much is held, one part in so many is freed at once, so that the next bytes do not begin another search."""
DISPENSABLE_STATES = (ConnectionState.IDLE, ConnectionState.HEAD, ConnectionState.LINGERING)
"""States of connections that are closed at the end of the process; a body that is being sent may still arrive."""


@dataclass(slots=True, eq=False)
class Holding:
    """What the clients of one address have: their number, what is held for them, and those that wait for the client,
    the longest waiting first, including those from which a thread reads a further part."""

    address: str
    connections: int = 0
    held_bytes: int = 0
    awaiting_connections: dict[Connection, None] = field(default_factory=dict)


class Connections:
    """`on_count` is called with the number of connections at each change of it, under the lock. `most_held` bounds what
    is held (`Connection.weight`)."""

    def __init__(self, poller: Poller, most_held: int, on_count: Callable[[int], object]) -> None:
        self._poller = poller
        self._most_held = most_held
        self._on_count = on_count
        self._lock = threading.Lock()
        self._by_descriptor: dict[int, Connection] = {}
        self._by_address: dict[str, Holding] = {}
        self._held = 0

    @property
    def count(self) -> int:
        """Open connections."""
        return len(self._by_descriptor)

    def is_tight(self, connection: Connection) -> bool:
        """Whether so much is held, with what the connection holds now, that what can be in a file is better there."""
        return 2 * (self._held + connection.weight - connection.counted) > self._most_held

    @property
    def is_too_much(self) -> bool:
        """Whether more is held than may be."""
        return self._held > self._most_held

    # ------------------------------------------------------------------------------------------ owners

    def add(self, connection: Connection) -> None:
        """Adds an accepted connection, which waits for its first request."""
        with self._lock:
            self._by_descriptor[connection.descriptor] = connection
            self._enter(connection).awaiting_connections[connection] = None
            self._poller.add(connection.descriptor)
            connection.is_waiting = True
            self._on_count(len(self._by_descriptor))

    def wait(self, connection: Connection, *, writing: bool = False) -> None:
        """Ends the caller's ownership: the connection waits until its client sends, or reads, something."""
        with self._lock:
            self._count(connection).awaiting_connections[connection] = None
            self._poller.arm(connection.descriptor, writing=writing)
            connection.is_waiting = True

    def take(self, descriptor: int) -> Connection | None:
        """The connection that the poller has reported; None if another thread has taken it since."""
        with self._lock:
            return self._take(self._by_descriptor.get(descriptor))

    def take_oldest(self) -> Connection | None:
        """Takes the connection that has waited longest for its client, of the address with the most connections. Idle
        ones that have got an answer come last: their next request would be lost."""
        with self._lock:
            for holding in sorted(self._by_address.values(), key=lambda holding: -holding.connections):
                waiting = [connection for connection in holding.awaiting_connections if connection.is_waiting]
                oldest = next((connection for connection in waiting if not connection.is_kept), None)
                if oldest is not None or waiting:
                    return self._take(oldest or waiting[0])
            return None

    def take_largest(self) -> list[Connection]:
        """While too much is held, those of the address for which the most is held that have held the most for the
        longest; they count no longer. A thread that reads from one of them looks itself whether it is still too
        much."""
        with self._lock:
            largest: list[Connection] = []
            if not self.is_too_much:
                return largest
            now, enough = time.monotonic(), self._most_held - self._most_held // RELIEF_DIVISOR
            for holding in sorted(self._by_address.values(), key=lambda holding: -holding.held_bytes):
                counted = [connection for connection in holding.awaiting_connections if connection.counted]
                for connection in sorted(counted, key=lambda connection: connection.counted * (connection.began - now)):
                    if self._held <= enough or not self._take(connection):
                        break
                    self._uncount(connection)
                    largest.append(connection)
                if counted:
                    break
            return largest

    def take_expired(self, now: float) -> list[Connection]:
        """Takes the connections that are past their deadline."""
        with self._lock:
            expired = [connection for connection in self._waiting() if connection.deadline < now]
            return [connection for connection in expired if self._take(connection)]

    def _waiting(self) -> Iterator[Connection]:
        return (
            connection
            for holding in self._by_address.values()
            for connection in holding.awaiting_connections
            if connection.is_waiting
        )

    @staticmethod
    def _take(connection: Connection | None) -> Connection | None:
        if connection is None or not connection.is_waiting:
            return None
        connection.is_waiting = False
        return connection

    def cap_deadlines(self, deadline: float) -> None:
        """Limits the deadlines of dispensable connections, at the end of the process."""
        with self._lock:
            for connection in self._waiting():
                if connection.state in DISPENSABLE_STATES:
                    connection.deadline = min(connection.deadline, deadline)

    # ------------------------------------------------------------------------------------------ by the owner

    def complete(self, connection: Connection) -> None:
        """The connection no longer waits for its client."""
        with self._lock:
            self._count(connection).awaiting_connections.pop(connection, None)

    def close(self, connection: Connection) -> None:
        """Closes it, unless it is closed."""
        with self._lock:
            if self._by_descriptor.get(connection.descriptor) is not connection:
                return
            del self._by_descriptor[connection.descriptor]
            self._uncount(connection)
            self._leave(connection)
            self._poller.remove(connection.descriptor)
            self._on_count(len(self._by_descriptor))
        connection.close()  # which may wait: a streamed answer ends

    # ------------------------------------------------------------------------------------------ the account

    def _count(self, connection: Connection) -> Holding:
        """Counts what is held now for the connection, and for whom."""
        if connection.address != connection.holding.address:
            self._uncount(connection)
            self._leave(connection)
            self._enter(connection)
        holding: Holding = connection.holding
        weight = connection.weight
        if weight != connection.counted:
            self._held += weight - connection.counted
            holding.held_bytes += weight - connection.counted
            connection.counted = weight
        return holding

    def _uncount(self, connection: Connection) -> None:
        self._held -= connection.counted
        connection.holding.held_bytes -= connection.counted
        connection.counted = 0

    def _enter(self, connection: Connection) -> Holding:
        address = connection.address
        connection.holding = holding = self._by_address.setdefault(address, Holding(address))
        holding.connections += 1
        return holding

    def _leave(self, connection: Connection) -> None:
        holding = connection.holding
        holding.connections -= 1
        holding.awaiting_connections.pop(connection, None)
        if not holding.connections:
            del self._by_address[holding.address]
