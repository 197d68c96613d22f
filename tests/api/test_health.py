"""Probes and metrics (docs/health.md#probes)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import make_url, text

from app.db.engine import make_engine
from app.db.migrate import upgrade
from app.db.phases import BASELINE, LAST_STEP, oldest_revision
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client, not_found
from tests.support.forked import ForkedProcess, run_module
from tests.support.own_postgres import OwnPostgres
from tests.support.prepared import migrated_file
from tests.support.servers import scratch_database
from tests.support.tenants import Tenant

NOWHERE = "unix:///nowhere/redis.sock"


def test_the_liveness_probe_answers(anon: Client) -> None:
    answer = anon.get("/healthz")
    assert answer.status_code == 200
    assert answer.get_json() == {"status": "ok"}


READY = {"status": "ok", "failed": [], "database": "ok", "migrations": "ok", "redis": "ok"}


def test_the_service_is_ready_when_all_parts_answer(anon: Client) -> None:
    for query in ("", "?strict"):
        answer = anon.get(f"/readyz{query}")
        assert (answer.status_code, answer.get_json()) == (200, READY)


@pytest.mark.parametrize("parts", [["redis"], ["database"], ["database", "redis"]])
def test_readiness_names_a_part_that_does_not_answer(settings: Settings, tmp_path: Path, parts: list[str]) -> None:
    """Without Redis all requests still work, so a load balancer must not take every host out of service."""
    changes = {"database": {"database_url": f"sqlite:///{tmp_path}"}, "redis": {"redis_url": NOWHERE}}
    broken = {name: value for part in parts for name, value in changes[part].items()}
    with app_with(settings, **broken) as app:
        answer, strict = Client(app).get("/readyz"), Client(app).get("/readyz?strict")
        assert Client(app).get("/healthz").status_code == 200
    states = answer.get_json()
    assert (answer.status_code, states["status"]) == (
        (503, "unavailable") if "database" in parts else (200, "degraded")
    )
    assert (strict.status_code, strict.get_json()["status"]) == (503, "unavailable")
    assert states["failed"] == strict.get_json()["failed"] == parts
    assert {name for name, state in states.items() if state == "does not answer"} == set(parts)
    assert "nowhere" not in answer.text
    assert str(tmp_path) not in answer.text


@pytest.fixture
def own_database(settings: Settings, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    if settings.database_url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path}/own.sqlite3"
        return
    with scratch_database(request.getfixturevalue("postgres")) as url:
        yield url


def readiness(settings: Settings, database_url: str) -> tuple[int, str, str]:
    """The status, and the states of the schema and of the database."""
    with app_with(settings, database_url=database_url) as app:
        answer = Client(app).get("/readyz")
    states = answer.get_json()
    assert states["failed"] == ([] if answer.status_code == 200 else ["migrations"])
    return answer.status_code, states["migrations"], states["database"]


def set_revision(database_url: str, revision: str) -> None:
    execute(database_url, "UPDATE alembic_version SET version_num = :revision", revision=revision)


def execute(database_url: str, statement: str, **values: str) -> None:
    engine = make_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def test_a_schema_of_another_version_is_named(settings: Settings, own_database: str) -> None:
    assert readiness(settings, own_database) == (503, "missing", "ok")
    upgrade(own_database, BASELINE)
    set_revision(own_database, LAST_STEP)
    assert readiness(settings, own_database) == (503, "older", "ok")
    upgrade(own_database)
    assert readiness(settings, own_database) == (200, "ok", "ok")
    set_revision(own_database, "9000")
    assert readiness(settings, own_database) == (200, "newer", "ok")
    execute(own_database, "UPDATE schema_state SET oldest_code = '8999'")
    assert readiness(settings, own_database) == (503, "too new", "ok")
    set_revision(own_database, "1975ea83b712")
    assert readiness(settings, own_database) == (503, "foreign", "ok")


def state_of_database(settings: Settings, database_url: str) -> tuple[int, str]:
    with app_with(settings, database_url=database_url) as app:
        answer = Client(app).get("/readyz")
    return answer.status_code, answer.get_json()["database"]


def test_a_server_that_refuses_writes_is_not_ready(settings: Settings, own_postgres: OwnPostgres) -> None:
    """A standby after a switch refuses writes, as does a server in read-only mode."""
    name = make_url(own_postgres.url).database
    assert state_of_database(settings, own_postgres.url) == (200, "ok")
    own_postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on;")
    try:
        assert state_of_database(settings, own_postgres.url) == (503, "takes no write")
    finally:
        own_postgres.run(f"ALTER DATABASE {name} RESET default_transaction_read_only;")


def test_a_locked_sqlite_file_is_not_ready(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.database.PROBE_SECONDS", 0.05)  # for the lock alone
    path = tmp_path / "locked.sqlite3"
    migrated_file(path)
    other_connection = sqlite3.connect(path, isolation_level=None)
    other_connection.execute("BEGIN IMMEDIATE")
    assert state_of_database(settings, f"sqlite:///{path}") == (503, "takes no write")
    other_connection.execute("COMMIT")
    other_connection.close()
    assert state_of_database(settings, f"sqlite:///{path}") == (200, "ok")


PROCESSES = [
    ["gunicorn", "wsgi:application"],
    ["jobs.worker", "sends"],
    ["jobs.worker", "webhooks", "maintenance"],
    ["jobs.worker", "automations"],
    ["jobs.schedule"],
    ["jobs.inbound"],
    ["jobs.submission"],
]


@pytest.mark.parametrize(("revision", "modules"), [("0074", PROCESSES), (None, [["jobs.schedule"]])])
def test_no_process_starts_with_a_schema_of_another_version(
    tmp_path: Path, revision: str | None, modules: list[list[str]]
) -> None:
    """Each process reports the reason in one line."""
    database = f"sqlite:///{tmp_path}/tms.sqlite3"
    if revision:
        upgrade(database)
        set_revision(database, revision)
    environ = {"DATA_DIR": str(tmp_path), "DATABASE_URL": database, "PORT": "1"}
    logs = [tmp_path / f"{number}.log" for number in range(len(modules))]
    started = [ForkedProcess(log, run_module, environ, *module) for log, module in zip(logs, modules, strict=True)]
    assert [process.wait() for process in started] == [1] * len(modules)
    errors = [log.read_text() for log in logs]
    has = f"at revision {revision}" if revision else "not migrated yet"
    needs = f"this version needs {oldest_revision()}: run `flask --app wsgi db upgrade`"
    assert errors == [f"cannot start: the database is {has}, {needs}\n"] * len(modules)


def test_metrics_count_requests_by_method_route_and_status(tenant: Tenant, anon: Client) -> None:
    tenant.api.get("/v1/messages")
    tenant.api.get("/v1/messages/0")
    tenant.api.get("/v1/messages", environ_overrides={"REQUEST_METHOD": "MADEUP"})
    anon.get("/v1/messages")
    tenant.client("report").post("/v1/lists/1/contacts", {})
    anon.get("/a/path/that/somebody/made/up")
    answer = anon.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    for method, route, status in (
        ("GET", "/v1/messages", 200),
        ("GET", "/v1/messages/<message_id>", 404),
        ("other", "unmatched", 405),
        ("GET", "/v1/messages", 401),
        ("POST", "/v1/lists/<list_id>/contacts", 403),
        ("GET", "unmatched", 404),
    ):
        assert f'tms_http_requests_total{{method="{method}",route="{route}",status="{status}"}}' in answer.text
        series = f'tms_http_request_seconds_count{{route="{route}",status_class="{status // 100}xx"}}'
        assert series in answer.text
    assert "MADEUP" not in answer.text
    assert "somebody" not in answer.text


@pytest.fixture(scope="module")
def local_only(settings: Settings) -> Iterator[Flask]:
    """An application that shows its metrics to the loopback address only."""
    with app_with(settings, metrics_local_only=True) as application:
        yield application


@each(
    ("address", "is_shown"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        ("", False),
    ],
)
def test_metrics_can_be_restricted_to_the_loopback_address(local_only: Flask, address: str, is_shown: bool) -> None:
    answer = Client(local_only).get("/metrics", environ_overrides={"REMOTE_ADDR": address})
    if is_shown:
        assert answer.status_code == 200
    else:
        not_found(answer)


def test_metrics_are_public_by_default(anon: Client) -> None:
    assert anon.get("/metrics", environ_overrides={"REMOTE_ADDR": "192.0.2.1"}).status_code == 200


@each("path", ["/metrics/", "/metrics%2f"])
def test_metrics_have_one_spelling_so_that_a_proxy_can_keep_them_inside(anon: Client, path: str) -> None:
    not_found(anon.get(path))
