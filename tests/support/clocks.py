"""Clocks that a test sets, instead of sleeping or relying on speed."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo
from types import ModuleType

import pytest

from app.clock import now, uptime


class ClockAhead:
    """Replaces `time` or `uptime` in a module: the real clock plus `ahead` seconds. Sleeping takes real time."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def uptime(self) -> float:
        return uptime() + self.ahead


def clock_of(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> ClockAhead:
    """Replaces the clock of these modules until the test ends."""
    clock = ClockAhead()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock


def stop_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`this_second()` returns the same value until the test ends, so that results do not depend on whether two changes
    happen in the same second."""
    moment = now()
    monkeypatch.setattr("app.clock.now", lambda: moment)


class Calendar:
    """The service's clock, which stands still at a moment until the test moves it."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def move(self, **by: float) -> None:
        """Lets time pass, in the words of `timedelta`."""
        self.moment += timedelta(**by)


def calendar_of(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> Calendar:
    """Has `now()` and `this_second()` tell the moment of the calendar until the test ends."""
    calendar = Calendar(moment)

    class StandingClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return calendar.moment.astimezone(tz)

    monkeypatch.setattr("app.clock.datetime", StandingClock)
    return calendar
