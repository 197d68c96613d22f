"""What a process that runs does about a clock that differs from the database's (docs/crash-safety.md#clocks)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from app.clock import followed_clock, machine_time, now
from app.db.clock_difference import Difference, compare
from app.infrastructure.clock_watch import ClockWatch

HOUR = timedelta(hours=1)


@pytest.fixture
def watch() -> Iterator[ClockWatch]:
    """Afterwards the clock of the machine counts again."""
    yield ClockWatch()
    followed_clock.leave()


def note(watch: ClockWatch, *differences: float) -> None:
    """Comparisons with a database that is an hour behind, whatever they say."""
    for seconds in differences:
        watch.note(Difference(seconds, machine_time() - HOUR))


def test_each_change_is_said_once(watch: ClockWatch, caplog: pytest.LogCaptureFixture) -> None:
    """A difference that comes and goes around a limit is said once."""
    caplog.set_level("INFO", "app.infrastructure.clock_watch")
    note(watch, 0.4, 1.9, -2.1, 1.9, 2.1, -19.9, 0.9, 0.9, -20.2, 19, 20.1, 2, 0.4)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "this host's clock is 2 s behind that of the database"),
        ("INFO", "this host's clock agrees with that of the database again"),
        (
            "ERROR",
            "this host's clock is 20 s behind that of the database: this process goes by the database's time until the "
            "two agree",
        ),
        ("INFO", "this host's clock agrees with that of the database again"),
    ]


def test_the_time_is_the_databases_from_the_limit_until_the_clocks_agree(watch: ClockWatch) -> None:
    behind = []
    for seconds in (19.9, 20.0, 1.1, 0.9):
        note(watch, seconds)
        behind.append(round((machine_time() - now()) / HOUR))
    assert behind == [0, 1, 1, 0]


def test_the_time_of_a_round_trip_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database may have read its clock at any moment of it: what is left is the least difference."""
    moments = iter((100.0, 104.0) * 3)
    monkeypatch.setattr("app.db.clock_difference.time", SimpleNamespace(monotonic=lambda: next(moments)))
    began = machine_time()
    monkeypatch.setattr("app.db.clock_difference.machine_time", lambda: began)
    answers = [began + timedelta(seconds=seconds) for seconds in (0, 4, 34)]
    compared = [compare(partial(next, iter([answer]))) for answer in answers]
    assert [difference and difference.seconds for difference in compared] == [0.0, 0.0, -30.0]
