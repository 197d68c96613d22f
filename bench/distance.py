"""A database that is some way off: `python -m bench.distance PORT TARGET SECONDS` passes on what it hears on PORT to
TARGET (a path or a port), and back, each part so many seconds after it came.

One process for all connections. It waits with `select`, because `epoll` counts in whole milliseconds.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

PART = 1 << 18
"""Bytes that are taken in at once, and at most held for one direction."""


@dataclass(slots=True)
class Direction:
    """From one socket to another: what is on its way, with the moment at which it arrives."""

    source: socket.socket
    target: socket.socket
    under_way: deque[tuple[float, bytes]] = field(default_factory=deque)
    arrived: bytearray = field(default_factory=bytearray)
    """What the target has not taken yet."""
    has_ended: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the source has said all and the target has it."""
        return self.has_ended and not self.under_way and not self.arrived

    def take(self, delay: float) -> None:
        """Takes in what the source has said."""
        try:
            part = self.source.recv(PART)
        except OSError:
            part = b""
        if part:
            self.under_way.append((time.monotonic() + delay, part))
        else:
            self.has_ended = True

    def deliver(self) -> None:
        """Hands over what has arrived by now."""
        moment = time.monotonic()
        while self.under_way and self.under_way[0][0] <= moment:
            self.arrived += self.under_way.popleft()[1]
        if not self.arrived:
            return
        try:
            del self.arrived[: self.target.send(self.arrived)]
        except BlockingIOError:
            return
        except OSError:
            self.arrived.clear()
            self.has_ended = True


class Distance:
    """The process: a listener, and two directions for each connection."""

    def __init__(self, port: int, target: str, delay: float) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._target = target
        self._delay = delay
        self._directions: list[Direction] = []

    def serve(self) -> None:
        """Until the process is ended."""
        while True:
            self._wait()
            for one in self._directions:
                one.deliver()
            self._end_those_that_are_over()

    def _wait(self) -> None:
        """Until something is said, something arrives, or a target can take more; takes in what is said."""
        said = {one.source: one for one in self._directions if not one.has_ended and len(one.arrived) < PART}
        full = [one.target for one in self._directions if one.arrived]
        for link in select.select([self._listener, *said], full, [], self._patience())[0]:
            if link is self._listener:
                self._accept()
            else:
                said[link].take(self._delay)

    def _patience(self) -> float | None:
        first = min((one.under_way[0][0] for one in self._directions if one.under_way), default=None)
        return None if first is None else max(first - time.monotonic(), 0.0)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far = _connected(self._target)
        for link in (near, far):
            link.setblocking(False)
        self._directions += [Direction(near, far), Direction(far, near)]

    def _end_those_that_are_over(self) -> None:
        ended = {link for one in self._directions if one.is_over for link in (one.source, one.target)}
        if ended:
            self._directions = [one for one in self._directions if one.source not in ended]
            for link in ended:
                link.close()


def _connected(target: str) -> socket.socket:
    if target.isdigit():
        return socket.create_connection(("127.0.0.1", int(target)))
    link = socket.socket(socket.AF_UNIX)
    link.connect(target)
    return link


if __name__ == "__main__":
    Distance(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])).serve()
