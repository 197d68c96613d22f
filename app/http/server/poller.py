"""Sockets that several threads wait for at once: each readiness is reported to one thread, and once.

A socket is reported after it has been armed, and must be armed again for its next report. So the thread that gets a
report is the only one that touches the socket until it arms it.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import threading
from collections import deque
from typing import Protocol

WAKE_BYTES = 4096


class Poller(Protocol):
    """Its methods may be called by any thread at any time."""

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
        for one in (self.descriptor, self._writing):
            os.set_blocking(one, False)

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
