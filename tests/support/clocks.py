"""Clocks that a test sets, instead of letting time pass or hoping that none passes."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from app.clock import now


class ClockAhead:
    """Stands for `time` in a module: the real one, so many seconds `ahead`. What it sleeps is real."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


def clock_of(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> ClockAhead:
    """The one clock of these modules until the test ends."""
    clock = ClockAhead()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock


def stop_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`this_second()` returns the same until the test ends: what depends on whether two changes fall into one second
    does not vary."""
    moment = now()
    monkeypatch.setattr("app.clock.now", lambda: moment)
