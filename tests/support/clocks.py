"""A clock for a module of the service, which a test sets ahead instead of letting time pass."""

from __future__ import annotations

import time
from types import ModuleType

import pytest


class ClockAhead:
    """Stands for `time` in a module: the real one, so many seconds `ahead`. What it sleeps is real."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


def clock_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ClockAhead:
    """The clock of that module until the test ends."""
    clock = ClockAhead()
    monkeypatch.setattr(module, "time", clock)
    return clock
