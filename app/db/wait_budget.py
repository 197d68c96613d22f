"""How long this service waits for PostgreSQL. A server that hangs says nothing, and neither does a network that drops
packets: only the waiting side can end it.

A request has so many seconds for all its waits together, since somebody waits for its answer. Everything else has them
for each wait: background work takes up the same work again, and a command has an operator who can end it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST = 7.0
"""In all. With what giving up takes, an answer comes within ten seconds."""
BACKGROUND = 30.0
COMMAND = 600.0


class Patience:
    """Seconds to wait for the database: in each wait, or `in_all`."""

    def __init__(self, seconds: float, *, in_all: bool = False) -> None:
        self.left = seconds
        self._in_all = in_all

    @property
    def is_spent(self) -> bool:
        """Whether nothing new may be begun."""
        return self.left <= 0

    def limit(self, least: float = 0.0) -> float | None:
        """Seconds that the next wait may take; None where it may take any time."""
        return None if self.left == math.inf else max(self.left, least)

    def shorten(self, seconds: float) -> None:
        """Leaves no more than so many seconds of those that are for everything together."""
        if self._in_all:
            self.left = min(self.left, seconds)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """What the block takes is no longer left. Blocks may lie in each other."""
        before, began = self.left, time.monotonic()
        try:
            yield
        finally:
            if self._in_all:
                self.left = min(self.left, before - (time.monotonic() - began))


_current: ContextVar[Patience | None] = ContextVar("patience", default=None)
_background = Patience(BACKGROUND)


def current() -> Patience:
    """That of the request or command in hand; of a thread that has none, that of background work."""
    return _current.get() or _background


def begin_request() -> None:
    """A request begins in this context, with seconds of its own."""
    _current.set(Patience(REQUEST, in_all=True))


def end_request() -> None:
    """It has been answered."""
    _current.set(None)


@contextmanager
def waiting_for(seconds: float) -> Iterator[None]:
    """Inside the block each wait takes at most so many seconds; `math.inf` is any time."""
    token = _current.set(Patience(seconds))
    try:
        yield
    finally:
        _current.reset(token)
