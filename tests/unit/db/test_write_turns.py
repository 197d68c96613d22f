"""A long job of writing lets others write in between, and its transactions stay short."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from app.db import write_turns
from app.db.database import Transaction
from app.db.write_turns import FIRST_ROWS, MAX_ROWS, MIN_ROWS, PAUSE_SECONDS, TARGET_SECONDS, WriteTurns
from app.services import Services


@dataclass
class Watch:
    """A clock that moves when somebody works or sleeps."""

    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    def read(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the pauses of the service, which are switched off in the rest of the suite."""
    monkeypatch.setattr(write_turns, "PAUSE_SECONDS", PAUSE_SECONDS)


def turns(services: Services, watch: Watch) -> WriteTurns:
    return WriteTurns(services.database, clock=watch.read, sleep=watch.sleep)


def test_the_size_follows_the_time_that_a_transaction_takes(services: Services) -> None:
    watch = Watch()
    job = turns(services, watch)

    def takes(seconds: float) -> int:
        def work(_: Transaction) -> None:
            watch.time += seconds

        job.take(job.size, work)
        return job.size

    assert takes(TARGET_SECONDS) == FIRST_ROWS
    assert takes(2 * TARGET_SECONDS) == FIRST_ROWS // 2
    assert [takes(0) for _ in range(5)] == [100, 200, 400, 800, MAX_ROWS]
    assert takes(1000 * TARGET_SECONDS) == MIN_ROWS


def test_a_job_may_take_only_its_share_of_the_time(services: Services) -> None:
    watch = Watch()
    job = WriteTurns(services.database, target=0.5, share=0.25, clock=watch.read, sleep=watch.sleep)

    def work(_: Transaction) -> None:
        watch.time += 1

    for _ in range(2):
        job.take(100, work)
    assert watch.slept == [3]
    assert job.size == FIRST_ROWS // 2


def test_on_sqlite_others_have_time_to_notice_that_they_can_write(services: Services) -> None:
    """A waiting writer looks every tenth of a second on SQLite. PostgreSQL wakes it."""
    watch = Watch()
    job = turns(services, watch)
    job.take(1, lambda _: None)
    job.take(1, lambda _: None)
    watch.time += PAUSE_SECONDS / 2
    job.take(1, lambda _: None)
    expected = [] if services.database.is_postgresql else [PAUSE_SECONDS, PAUSE_SECONDS / 2]
    assert [round(slept, 6) for slept in watch.slept] == expected
    assert PAUSE_SECONDS > 0.1
