"""How long the service waits for PostgreSQL. A server that hangs sends nothing, and neither does a network that drops
packets: only the waiting side can end such a wait.

A request has one budget for all its waits together, since a client waits for its answer. Everything else has a limit
per wait: background work is resumed later, and a command has an operator who can interrupt it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST = 7.0
"""Seconds in total. With the time that giving up takes, a response is sent within ten seconds."""
BACKGROUND = 30.0
COMMAND = 600.0
LEAST = 0.05
"""Seconds; with less left no statement starts, since it would only be cancelled."""


class WaitBudget:
    """Seconds to wait for the database: per wait, or in `total`."""

    def __init__(self, seconds: float, *, total: bool = False) -> None:
        self.left = seconds
        self._total = total

    @property
    def is_spent(self) -> bool:
        """Whether no further statement may start."""
        return self.left < LEAST

    def limit(self, least: float = 0.0) -> float | None:
        """Seconds that the next wait may take; None for no limit."""
        return None if self.left == math.inf else max(self.left, least)

    def shorten(self, seconds: float) -> None:
        """Reduces a total budget to at most that many seconds."""
        if self._total:
            self.left = min(self.left, seconds)

    def measured(self) -> _Measured:
        """Subtracts the time that a `with` block takes from a total budget. Blocks may be nested."""
        return _Measured(self)

    def spend(self, seconds: float, before: float) -> None:
        """Subtracts seconds from what was left before they began."""
        if self._total:
            self.left = min(self.left, before - seconds)


class _Measured:
    """A context manager as a class: a request enters eight, and one made of a generator costs twice as much."""

    __slots__ = ("_before", "_began", "_budget")

    def __init__(self, budget: WaitBudget) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        self._before, self._began = self._budget.left, time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._budget.spend(time.monotonic() - self._began, self._before)


_current: ContextVar[WaitBudget | None] = ContextVar("wait_budget", default=None)
_background = WaitBudget(BACKGROUND)


def current() -> WaitBudget:
    """The budget of the current request or command; in other threads, that of background work."""
    return _current.get() or _background


def begin_request() -> None:
    """Gives the request that begins in this context its own budget."""
    _current.set(WaitBudget(REQUEST, total=True))


def end_request() -> None:
    _current.set(None)


@contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Inside the block each wait takes at most that many seconds; `math.inf` means no limit."""
    token = _current.set(WaitBudget(seconds))
    try:
        yield
    finally:
        _current.reset(token)
