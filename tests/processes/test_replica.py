"""Reports that are read from a replica of PostgreSQL (docs/databases.md#a-replica-for-reports)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, text

from app.db.replica import ReportsDatabase
from app.http.repetition import ATTEMPTS_KEY, Attempts
from app.settings import SettingsError, from_environment
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.own_postgres import OwnPostgres, Replica, own_postgres, replica_of
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import short_folder
from tests.support.statements import StatementCounter
from tests.support.tenants import new_tenant

GROUPS = "/v1/transactional-groups"


@pytest.fixture(scope="module")
def primary() -> Iterator[OwnPostgres]:
    with own_postgres(migrated=True) as server:
        yield server


@pytest.fixture(scope="module")
def replica(primary: OwnPostgres) -> Iterator[Replica]:
    with replica_of(primary) as made:
        yield made


@contextmanager
def sends_with(primary: OwnPostgres, read_url: str, redis_url: str) -> Iterator[SendsApi]:
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=primary.url, DATABASE_READ_URL=read_url, REDIS_URL=redis_url)
        with app_with(settings) as app:
            yield SendsApi(new_tenant(app))


@pytest.fixture
def sends(primary: OwnPostgres, replica: Replica, redis_url: str) -> Iterator[SendsApi]:
    """Sends of a service whose reports come from the replica."""
    with sends_with(primary, replica.url, redis_url) as made:
        yield made


@dataclass(frozen=True)
class Read:
    """An answer to a GET, and the statements that it took."""

    body: Any
    on_replica: list[str]
    on_primary: list[str]


def read(sends: SendsApi, path: str, **query: str) -> Read:
    """Reads a path of the API."""
    engines = engine_of_replica(sends), sends.tenant.services.database.engine
    with StatementCounter(engines[0]) as replica, StatementCounter(engines[1]) as primary:
        answer = sends.tenant.api.get(path, query_string=query)
    assert answer.status_code == 200
    return Read(answer.get_json(), replica.statements, primary.statements)


def engine_of_replica(sends: SendsApi) -> Engine:
    replica = sends.tenant.services.replica
    assert replica is not None
    return replica.engine


def group_read(sends: SendsApi, sent: AcceptedSend) -> Read:
    """The report of a group."""
    return read(sends, f"{GROUPS}/{sent.group.id}")


def is_about_groups(statements: list[str]) -> bool:
    return any("FROM transactional_groups" in statement for statement in statements)


def test_reports_come_from_the_replica_and_everything_else_from_the_database(sends: SendsApi) -> None:
    sent = sends.send(sends.email())
    report = group_read(sends, sent)
    assert report.body["sent"] == 1
    assert [is_about_groups(statements) for statements in (report.on_replica, report.on_primary)] == [True, False]
    assert read(sends, f"/v1/lists/{sends.tenant.add_list()}").on_replica == []


def test_a_report_has_what_was_committed_when_it_was_asked_for(
    sends: SendsApi, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that has not got it in a moment is left out."""
    monkeypatch.setattr("app.db.replica.CATCH_UP_SECONDS", 0.25)
    with replica.paused():
        sent = sends.send(sends.email(group_name="Just now"))
        report = group_read(sends, sent)
        assert report.body["sent"] == 1
        assert [is_about_groups(statements) for statements in (report.on_replica, report.on_primary)] == [False, True]
        assert group_read(sends, sent).on_replica == []
        (group,) = read(sends, GROUPS, name="Just now").body["_embedded"]["transactional-groups"]
        assert group["id"] == sent.group.id
        recipients = read(sends, "/v1/transactional-sends").body["_embedded"]["recipients"]
        assert [item["uuid"] for item in recipients] == [row.uuid for row in sent.recipients]


def test_while_the_replica_is_away_reports_come_from_the_database(primary: OwnPostgres, redis_url: str) -> None:
    with replica_of(primary) as lost, sends_with(primary, lost.url, redis_url) as sends:
        sent = sends.send(sends.email())
        assert is_about_groups(group_read(sends, sent).on_replica)
        lost.stop()
        assert [group_read(sends, sent).body["sent"] for _ in range(2)] == [1, 1]


def test_a_report_that_the_replica_fails_says_nothing_about_the_database(sends: SendsApi, replica: Replica) -> None:
    """It is repeated, and read from the database then."""
    database, attempts = sends.tenant.services.database, Attempts()
    sent = sends.send(sends.email())
    group_read(sends, sent)
    path = f"{GROUPS}/{sent.group.id}"

    def end_session(_connection: object, cursor: psycopg.Cursor, statement: str, *_: object) -> None:
        if is_about_groups([statement]):
            assert replica.execute(f"SELECT pg_terminate_backend({cursor.connection.info.backend_pid})")

    event.listen(engine_of_replica(sends), "before_cursor_execute", end_session)
    sends.tenant.api.get(path, environ_overrides={ATTEMPTS_KEY: attempts})
    assert (attempts.number, attempts.pause is None, database.has_failed_within(60)) == (1, False, False)
    answer = sends.tenant.api.get(path, environ_overrides={ATTEMPTS_KEY: attempts})
    assert (answer.status_code, attempts.pause) == (200, None)


def test_a_database_that_is_a_standby_by_now_is_read_itself(sends: SendsApi) -> None:
    """During a switchover, a balancer may lead to it for a moment."""
    standby = sends.tenant.services.replica
    assert standby is not None
    with ReportsDatabase(standby, standby).read(sends.tenant.id) as session:
        assert session.scalar(text("SELECT pg_is_in_recovery()"))


def test_a_replica_is_one_of_postgresql() -> None:
    with pytest.raises(SettingsError, match="DATABASE_READ_URL"):
        from_environment({"DATABASE_READ_URL": "sqlite:////tmp/replica.sqlite3"})
