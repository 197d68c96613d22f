"""Probes while the database or Redis hangs: none waits for another, and none takes what requests need
(docs/health.md#probes)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from flask import Flask

from app.db import outage
from app.http.context import EXTENSION
from app.maintenance import figures, health
from app.maintenance.figures import FiguresReader
from app.maintenance.health import Readiness
from app.settings import Settings
from tests.api.test_database_away import hasty
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.client import Client
from tests.support.own_postgres import OwnPostgres
from tests.support.redis_process import running_redis
from tests.support.scraped import parsed, renew
from tests.support.servers import PATIENCE, short_folder, wait_until


@pytest.fixture
def own_app(own_postgres: OwnPostgres, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """An application whose database a test may freeze, and which looks for it at every probe."""
    monkeypatch.setattr("app.db.bounded_connection.PROBE_INTERVAL", 0.05)
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    outage.outage.reset()
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url)
        with app_with(settings) as application:
            yield application
    outage.outage.reset()


def state(app: Flask, query: str = "") -> tuple[int, list[str]]:
    answer = Client(app).get(f"/readyz{query}")
    return answer.status_code, answer.get_json()["failed"]


def test_a_database_that_hangs_makes_it_503_until_it_resumes(own_app: Flask, own_postgres: OwnPostgres) -> None:
    assert state(own_app) == (200, [])
    with own_postgres.frozen(), hasty():
        assert state(own_app) == (503, ["database"])
        assert Client(own_app).get("/healthz").status_code == 200
    wait_until(lambda: state(own_app) == (200, []), "it is ready again")


def test_metrics_are_shown_without_a_database_that_hangs(
    own_app: Flask, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def up() -> float | None:
        renew(own_app)
        answer = Client(own_app).get("/metrics")
        assert answer.status_code == 200
        return parsed(answer.text).get(("tms_database_up", frozenset()))

    monkeypatch.setattr(figures, "DATABASE_SECONDS", 0.3)
    with own_postgres.frozen(), hasty():
        assert up() == 0
        samples = parsed(Client(own_app).get("/metrics").text)
        assert [name for name, _ in samples if name.startswith("tms_queue")] == []
        assert [name for name, _ in samples if name == "tms_http_requests_total"]
    wait_until(lambda: up() == 1, "the figures are back")


def test_figures_are_soon_read_again_after_a_redis_that_hung(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis's time does not count as the database's, after which the next reading waits: otherwise an alert would go on
    for minutes after its condition has ended."""
    hanging = 1.0
    monkeypatch.setattr("app.services.WAIT", hanging)
    monkeypatch.setattr(figures, "FULL_SHARE", 1.0)
    with running_redis() as redis, app_with(settings, redis_url=redis.url) as app:
        reader = FiguresReader(app.extensions[EXTENSION])
        with redis.frozen():
            before = time.monotonic()
            reading = reader.latest()
            assert reading is not None
            assert not reading.redis_up
            assert before <= reading.taken + hanging + reading.seconds <= time.monotonic()
        wait_until(lambda: (reading := reader.latest()) is not None and reading.redis_up, "it answers again")


class HangingProbe:
    """A probe that hangs until a test lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.count = 0
        monkeypatch.setattr(health, "_database", self.probe)

    def probe(self, services: object) -> dict[str, str]:
        self.count += 1
        self.begun.release()
        assert self.gate.wait(PATIENCE)
        return {"database": "takes no write", "migrations": "ok"}


def test_while_one_probe_hangs_the_others_get_the_result_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of probes can take the connections and the threads of requests."""
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(health, "STALE_SECONDS", PATIENCE)
    with app_with(settings) as app:
        readiness: Readiness = app.extensions[f"{EXTENSION}.{Readiness.__name__}"]
        before = readiness.check()
        assert set(before.values()) == {"ok"}
        hanging = HangingProbe(monkeypatch)
        probe = threading.Thread(target=readiness.check)
        probe.start()
        assert hanging.begun.acquire(timeout=PATIENCE)
        assert [state(app) for _ in range(20)] == [(200, [])] * 20
        hanging.gate.set()
        probe.join(PATIENCE)
        monkeypatch.setattr(health, "FRESH_SECONDS", PATIENCE)
        assert [state(app) for _ in range(20)] == [(503, ["database"])] * 20
        assert hanging.count == 1


def test_the_first_probe_is_not_waited_for_without_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_SECONDS", 0.01)
    hanging = HangingProbe(monkeypatch)
    with app_with(settings) as app:
        readiness: Readiness = app.extensions[f"{EXTENSION}.{Readiness.__name__}"]
        probe = threading.Thread(target=readiness.check)
        probe.start()
        assert hanging.begun.acquire(timeout=PATIENCE)
        assert state(app) == (503, ["database"])
        hanging.gate.set()
        probe.join(PATIENCE)


def test_redis_that_did_not_answer_a_request_is_not_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app_with(settings) as app:
        monkeypatch.setattr("app.infrastructure.redis_client.SECONDS", PATIENCE)
        services = app.extensions[EXTENSION]
        services.redis_breaker.open()
        monkeypatch.setattr(type(services.redis), "ping", pytest.fail)
        assert state(app) == (200, ["redis"])
        assert state(app, "?strict") == (503, ["redis"])
