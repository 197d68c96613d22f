"""What a scrape shows of the machinery of a host: its database connections, journals, sweeps, version and the webhooks
that its processes serve (docs/monitoring/metrics.md)."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from flask import Flask

from app.clock import now
from app.db.database import Database
from app.db.phases import newest_revision
from app.distribution import VERSION
from app.events.batches import dispatcher_folder, recover_leases
from app.events.dispatch import WebhookClient, WebhookDispatcher
from app.http.context import EXTENSION
from app.infrastructure import metrics
from app.infrastructure.metrics import _Pool
from app.maintenance.sweeps import measured_sweep
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder
from app.services import Services
from app.settings import Settings
from app.transports.base import DeliveryResult
from tests.api.test_database_away import hasty
from tests.conftest import test_settings
from tests.jobs.conftest import AddHook
from tests.jobs.test_webhooks import another_process_in
from tests.support.apps import app_with
from tests.support.own_postgres import OwnPostgres
from tests.support.prepared import migrated_file
from tests.support.scraped import Samples, parsed, samples, scrape, value
from tests.support.servers import short_folder
from tests.support.tenants import new_tenant
from tests.support.webhook_receiver import Receiver


def exposed() -> Samples:
    """What this process adds to a scrape."""
    return parsed(metrics.exposition().decode())


def grown(before: Samples, name: str, **labels: str) -> float:
    """How much a sample has grown."""
    return value(exposed(), name, **labels) - value(before, name, **labels)


@pytest.fixture
def own_app(settings: Settings) -> Iterator[Flask]:
    """An application with a data folder of its own."""
    with short_folder() as folder, app_with(settings, data_dir=folder) as app:
        yield app


def test_a_scrape_tells_the_version_the_schema_and_that_database_and_redis_answer(own_app: Flask) -> None:
    figures = scrape(own_app)
    assert value(figures, "tms_build_info", version=VERSION, python=platform.python_version()) == 1
    schema = {"revision": newest_revision(), "needed": newest_revision(), "state": "ok"}
    assert samples(figures, "tms_schema_info") == {("tms_schema_info", frozenset(schema.items())): 1}
    assert [value(figures, f"tms_{name}_up") for name in ("database", "redis")] == [1, 1]
    took, age = value(figures, "tms_figures_seconds"), value(figures, "tms_figures_age_seconds")
    assert 0 < took <= age, "they are as old as the beginning of their reading"


def test_a_redis_that_is_away_is_0(settings: Settings) -> None:
    with app_with(settings, redis_url="redis://127.0.0.1:1") as app:
        figures = scrape(app)
    assert [value(figures, f"tms_{name}_up") for name in ("database", "redis")] == [1, 0]


def test_journals_are_shown_with_their_size(own_app: Flask) -> None:
    """Journals of dead senders are shown, too, until their results are in the database."""
    services: Services = own_app.extensions[EXTENSION]
    folder = journal_folder(services.settings)
    assert [value(scrape(own_app), name) for name in ("tms_journals", "tms_journal_bytes")] == [0, 0]
    for name, results in (("one", 3), ("two", 0)):
        journal = Journal(folder, name)
        for number in range(results):
            accepted = DeliveryResult.accepted("250 ok")
            journal.append(AttemptResult(number, 1, "ann@example.com", now(), accepted))
        journal.close()
    size = (folder / "one.journal").stat().st_size
    assert size > 0
    assert [value(scrape(own_app), name) for name in ("tms_journals", "tms_journal_bytes")] == [2, size]


def test_a_sweep_is_counted_and_timed_with_its_moment() -> None:
    before, began = exposed(), now()
    with measured_sweep("cleaning"):
        pass
    assert grown(before, "tms_sweeps_total", sweep="cleaning", result="done") == 1
    assert grown(before, "tms_sweep_seconds_count", sweep="cleaning") == 1
    moment = value(exposed(), "tms_sweep_timestamp_seconds", sweep="cleaning")
    assert began.timestamp() <= moment <= now().timestamp()


def test_connections_are_shown_with_their_limit(services: Services) -> None:
    """The numbers are those of this process. A scrape adds up those of all processes."""

    def connections() -> list[float]:
        return [value(exposed(), "tms_database_connections", state=state) for state in ("in_use", "idle", "limit")]

    before = connections()
    with closing(Database(services.settings.database_url)) as database:
        pool = _Pool(database)  # as a process has it that shares its counts
        assert [after - was for after, was in zip(connections(), before, strict=True)] == [0, 0, database.pool_state[2]]
        with database.read() as session:
            session.connection()
            with database.read() as other:
                other.connection()
                assert [after - was for after, was in zip(connections(), before, strict=True)][:2] == [2, 0]
            assert [after - was for after, was in zip(connections(), before, strict=True)][:2] == [1, 1]
    del pool
    assert connections() == before, "a process that has ended has none"


def errors(before: Samples) -> dict[str, float]:
    """The failures of the database since then."""
    counts = {reason: grown(before, "tms_database_errors_total", reason=reason) for reason in REASONS}
    return {reason: number for reason, number in counts.items() if number}


REASONS = ("unavailable", "pool", "other")


def test_a_request_that_fails_for_the_database_is_counted_by_the_reason(
    own_postgres: OwnPostgres, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.postgresql.CHECKOUT_SECONDS", 0.1)
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url, DATABASE_POOL="1")
        with app_with(settings) as app:
            api, services = new_tenant(app).api, app.extensions[EXTENSION]
            before = exposed()
            with services.database.read() as session:
                session.connection()
                assert api.get("/v1/lists").status_code == 503
            assert errors(before) == {"pool": 1}
            with own_postgres.away(), hasty():
                assert api.get("/v1/lists").status_code == 503
            assert errors(before) == {"pool": 1, "unavailable": 1}


def test_a_statement_that_the_database_refuses_is_counted_as_another_failure(redis_url: str) -> None:
    with short_folder() as folder:
        file = folder / "own.sqlite3"
        with app_with(test_settings(folder, DATABASE_URL=migrated_file(file), REDIS_URL=redis_url)) as app:
            api = new_tenant(app).api
            with closing(sqlite3.connect(file)) as connection:
                connection.execute("ALTER TABLE lists RENAME TO others")
            before = exposed()
            assert api.get("/v1/lists").status_code == 503
            assert errors(before) == {"other": 1}


@pytest.fixture
def dispatcher() -> Iterator[WebhookDispatcher]:
    with closing(WebhookClient()) as client:
        yield WebhookDispatcher(client)


@pytest.mark.parametrize(("status", "outcome"), [(200, "delivered"), (500, "failed"), (410, "gone")])
def test_a_request_to_a_webhook_is_counted_by_its_outcome(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher, status: int, outcome: str
) -> None:
    before = exposed()
    with Receiver(status) as receiver:
        add_hook(receiver.url).happen(1)
        dispatcher.run(services)
    counts = {name: grown(before, "tms_webhook_tries_total", outcome=name) for name in ("delivered", "failed", "gone")}
    assert {name: number for name, number in counts.items() if number} == {outcome: 1}


def test_webhook_leases_of_a_killed_process_are_counted_when_they_are_taken_over(
    services: Services, add_hook: AddHook
) -> None:
    before = exposed()
    with another_process_in(dispatcher_folder(services.settings)) as (name, kill):
        hook = add_hook("https://hook.example/")
        hook.set(worker=f"{name}:theirs", lease_time=now())
        kill()
        recover_leases(services)
    assert grown(before, "tms_leases_recovered_total", kind="webhooks") == 1
    assert hook.row is not None
    assert hook.row.lease_time is None


def test_what_is_known_beforehand_begins_at_0() -> None:
    """Else Prometheus would see no increase in the first failure."""
    samples_at_start = set(exposed())
    assert {("tms_database_errors_total", frozenset({("reason", reason)})) for reason in REASONS} <= samples_at_start
    for type_ in ("email", "sms"):
        default = frozenset({("type", type_), ("transport", "default"), ("reply", "none")})
        assert ("tms_transport_replies_total", default) in samples_at_start
    assert ("tms_webhook_outages_total", frozenset()) in samples_at_start
