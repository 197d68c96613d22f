"""The scheduler finds work that no wake-up announced, on both databases, with and without Redis."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.clock import now, seconds_to_next_month
from app.infrastructure.redis_client import AUTOMATIONS, MAINTENANCE, SENDS, WEBHOOKS
from jobs.schedule import Periodic, periodic_jobs, tick
from tests.databases.running import Alone, alone
from tests.support.captured import capture
from tests.support.databases import BACKENDS
from tests.support.forked import ForkedProcess, run_module
from tests.support.servers import wait_until
from tests.support.statements import StatementCounter

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services


def test_without_due_work_no_wake_up_is_queued(parts: Alone) -> None:
    parts.add_recipient(due_time=now() + MINUTE)
    parts.add_recipient(state="sending", lease_time=now() + MINUTE, worker="w")
    parts.add_recipient(state="delivered")
    parts.add_event(due=now() + MINUTE)
    tick(parts.services, [])
    assert (parts.waiting(SENDS), parts.waiting(WEBHOOKS)) == (0, 0)


def test_a_due_recipient_wakes_a_sender(parts: Alone) -> None:
    parts.add_recipient()
    tick(parts.services, [])
    assert (parts.waiting(SENDS), parts.waiting(WEBHOOKS)) == (1, 0)


def test_an_expired_lease_wakes_a_sender(parts: Alone) -> None:
    parts.add_recipient(state="sending", lease_time=now() - MINUTE, worker="dead")
    tick(parts.services, [])
    assert parts.waiting(SENDS) == 1


def test_a_due_event_wakes_the_dispatcher(parts: Alone) -> None:
    parts.add_event(due=now())
    tick(parts.services, [])
    assert (parts.waiting(SENDS), parts.waiting(WEBHOOKS)) == (0, 1)


def test_what_a_magic_address_simulates_wakes_the_worker(parts: Alone) -> None:
    capture(parts.tenant, "open@simulator.test", simulates="open", simulate_time=now() + MINUTE)
    capture(parts.tenant, "click@simulator.test", simulates="click")
    tick(parts.services, [])
    assert parts.waiting(AUTOMATIONS) == 0
    capture(parts.tenant, "open@simulator.test", simulates="open", simulate_time=now())
    tick(parts.services, [])
    assert parts.waiting(AUTOMATIONS) == 1


def test_two_schedulers_queue_one_wake_up(parts: Alone) -> None:
    parts.add_recipient()
    tick(parts.services, [])
    tick(parts.services, [])
    assert parts.waiting(SENDS) == 1


def test_a_sweep_takes_a_fixed_number_of_statements(parts: Alone) -> None:
    for _ in range(20):
        parts.add_recipient(due_time=now() + MINUTE)
    with StatementCounter(parts.services.database.engine) as counted:
        tick(parts.services, [])
    assert counted.count <= 13


def test_cleaning_is_queued_at_the_start_and_every_hour(parts: Alone) -> None:
    table = periodic_jobs()
    assert [(job.queue, job.seconds) for job in table] == [(MAINTENANCE, 3600)]
    tick(parts.services, table)
    assert parts.waiting(MAINTENANCE) == 1
    parts.services.redis.flushall()
    tick(parts.services, table)
    assert parts.waiting(MAINTENANCE) == 0
    tick(parts.services, [Periodic(MAINTENANCE, 3600, due=0.0)])
    assert parts.waiting(MAINTENANCE) == 1


def test_the_scheduler_continues_without_redis(parts: Alone) -> None:
    parts.add_recipient()
    table = periodic_jobs()
    parts.redis.stop()
    for _ in range(2):
        tick(parts.services, table)
    parts.redis.start()
    parts.services.redis_breaker.close()
    tick(parts.services, table)
    assert (parts.waiting(SENDS), parts.waiting(MAINTENANCE)) == (1, 1), "the slow job does not wait for an hour"


def test_the_scheduler_continues_when_the_database_fails(parts: Alone, caplog: pytest.LogCaptureFixture) -> None:
    with parts.services.database.write() as transaction:
        transaction.execute(text("ALTER TABLE send_queue RENAME TO elsewhere"))
    with caplog.at_level(logging.WARNING, logger="jobs.schedule"):
        tick(parts.services, periodic_jobs())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["cannot look for work"]
    assert parts.waiting(MAINTENANCE) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_when_asked(number: signal.Signals) -> None:
    with alone(None) as parts:
        settings = parts.services.settings
        environment = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
        log = settings.data_dir / "schedule.log"
        process = ForkedProcess(log, run_module, environment, "jobs.schedule")
        wait_until(lambda: log.exists() and log.read_text().count("\n") == 2, "it has written two lines")
        first, second = log.read_text().splitlines()
        assert ("using the database" in first, "scheduler started" in second) == (True, True)
        process.send_signal(number)
        assert process.wait() == 0


def test_slow_jobs_also_run_at_the_turn_of_a_month() -> None:
    """A month begins a range of the history at once (docs/decisions/019-history-in-ranges.md)."""
    for moment, seconds in (
        (datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC), 30),
        (datetime(2026, 12, 31, 23, 0, 0, 500_000, tzinfo=UTC), 3599.5),
        (datetime(2028, 2, 28, tzinfo=UTC), 2 * 86_400),
        (datetime(2026, 11, 1, tzinfo=UTC), 30 * 86_400),
    ):
        assert seconds_to_next_month(moment) == seconds
    assert Periodic(MAINTENANCE, 3600).wait(datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC)) == 30
    assert Periodic(MAINTENANCE, 3600).wait(datetime(2026, 1, 31, 22, 59, 30, tzinfo=UTC)) == 3600
