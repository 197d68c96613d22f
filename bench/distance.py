"""A proxy that delays: `python -m bench.distance PORT TARGET SECONDS` connects PORT to TARGET (a path or a port), and
forwards what either side sends so many seconds after it arrived.

One process serves all connections. It waits with `select`, because `epoll` counts in whole milliseconds.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

PART = 1 << 18
"""Bytes that are received at once; a direction that holds so many receives no more."""


@dataclass(slots=True)
class Direction:
    """The bytes from one socket to another, each part with the time at which it is due."""

    source: socket.socket
    target: socket.socket
    delayed: deque[tuple[float, bytes]] = field(default_factory=deque)
    due: bytearray = field(default_factory=bytearray)
    """What the target has not taken yet."""
    has_ended: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the source has closed and the target has received everything."""
        return self.has_ended and not self.delayed and not self.due

    def receive(self, delay: float) -> None:
        """Receives from the source."""
        try:
            part = self.source.recv(PART)
        except OSError:
            part = b""
        if part:
            self.delayed.append((time.monotonic() + delay, part))
        else:
            self.has_ended = True

    def deliver(self) -> None:
        """Sends to the target what is due by now."""
        moment = time.monotonic()
        while self.delayed and self.delayed[0][0] <= moment:
            self.due += self.delayed.popleft()[1]
        if not self.due:
            return
        try:
            del self.due[: self.target.send(self.due)]
        except BlockingIOError:
            return
        except OSError:
            self.due.clear()
            self.has_ended = True


class Distance:
    """A listener, and two directions for each connection."""

    def __init__(self, port: int, target: str, delay: float) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._target = target
        self._delay = delay
        self._directions: list[Direction] = []

    def serve(self) -> None:
        """Runs until the process is terminated."""
        while True:
            self._wait()
            for direction in self._directions:
                direction.deliver()
            self._close_finished()

    def _wait(self) -> None:
        """Waits until a source has sent, a part is due, or a target can take more; receives what was sent."""
        sources = {
            direction.source: direction
            for direction in self._directions
            if not direction.has_ended and len(direction.due) < PART
        }
        full = [direction.target for direction in self._directions if direction.due]
        for link in select.select([self._listener, *sources], full, [], self._seconds_to_wait())[0]:
            if link is self._listener:
                self._accept()
            else:
                sources[link].receive(self._delay)

    def _seconds_to_wait(self) -> float | None:
        first = min((direction.delayed[0][0] for direction in self._directions if direction.delayed), default=None)
        return None if first is None else max(first - time.monotonic(), 0.0)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far = _connected(self._target)
        for link in (near, far):
            link.setblocking(False)
        self._directions += [Direction(near, far), Direction(far, near)]

    def _close_finished(self) -> None:
        ended = {
            link for direction in self._directions if direction.is_over for link in (direction.source, direction.target)
        }
        if ended:
            self._directions = [direction for direction in self._directions if direction.source not in ended]
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
