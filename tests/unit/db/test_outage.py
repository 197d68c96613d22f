"""Failures that count as an outage, and the log lines of one (app/db/outage.py)."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from app.db import outage
from app.db.database import Database
from app.db.outage import is_interruption, is_unavailable, log_failure
from app.services import Services
from tests.support.cases import each
from tests.support.own_postgres import OwnPostgres

logger = logging.getLogger("tests.outage")

REPEATED = ["08000", "08006", "25006", "40001", "57P01", "57P02", "57P03"]


@pytest.fixture(autouse=True)
def no_outage() -> Iterator[None]:
    outage.outage.reset()
    yield
    outage.outage.reset()


def failure(database: Database, statement: str) -> SQLAlchemyError:
    with pytest.raises(SQLAlchemyError) as caught, database.write() as transaction:
        transaction.connection().execute(text(statement))
    return caught.value


@each(
    "statement",
    [
        "SELECT * FROM no_such_table",
        "SELECT no_such_column FROM accounts",
        "nonsense",
        "INSERT INTO accounts (id) VALUES (NULL)",
    ],
)
def test_a_malformed_statement_is_no_outage(services: Services, statement: str) -> None:
    assert not is_unavailable(failure(services.database, statement))


def test_a_value_that_cannot_be_written_is_no_outage(services: Services) -> None:
    with services.database.read() as session:
        connection = session.connection()
        with pytest.raises(Exception, match="surrogates not allowed") as caught:
            connection.execute(text("SELECT :value"), {"value": "\ud800"}).scalar()
    assert not is_unavailable(caught.value)


def test_a_sqlite_file_that_is_locked_or_cannot_be_opened_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.engine.BUSY_TIMEOUT_MS", 1)
    path = tmp_path / "locked.sqlite3"
    other_connection = sqlite3.connect(path, isolation_level=None)
    other_connection.execute("PRAGMA journal_mode=WAL")
    database = Database(f"sqlite:///{path}")
    other_connection.execute("BEGIN IMMEDIATE")
    assert is_unavailable(failure(database, "CREATE TABLE taken (id)"))
    other_connection.close()
    database.close()
    assert is_unavailable(failure(Database(f"sqlite:///{tmp_path}"), "SELECT 1"))


@pytest.mark.parametrize(
    "setting",
    ["SET TRANSACTION READ ONLY; CREATE TABLE t (id int)", "SET LOCAL statement_timeout=1; SELECT pg_sleep(9)"],
)
def test_a_server_that_refuses_writes_or_exceeds_the_time_limit_is_an_outage(
    own_postgres: OwnPostgres, setting: str
) -> None:
    database = Database(own_postgres.url)
    assert is_unavailable(failure(database, setting))
    database.close()


def test_a_server_that_closes_connections_or_cannot_be_reached_is_an_outage(own_postgres: OwnPostgres) -> None:
    database = Database(own_postgres.url)
    with database.read() as session:
        session.execute(text("SELECT 1"))
        with own_postgres.away():
            with pytest.raises(SQLAlchemyError) as caught:
                session.execute(text("SELECT 1"))
            assert is_unavailable(failure(database, "SELECT 1"))
    assert is_unavailable(caught.value)
    database.close()
    assert is_unavailable(failure(Database("postgresql+psycopg://127.0.0.1:1/none"), "SELECT 1"))
    assert is_unavailable(NoFreeConnection())


def test_what_a_switchover_ends_is_an_interruption_and_other_outages_are_none(own_postgres: OwnPostgres) -> None:
    """The codes of docs/databases.md#repeated-requests, and of a cancelled statement, a full disk and a deadlock."""
    database = Database(own_postgres.url)

    def is_ended_by(code: str) -> bool:
        raised = failure(database, f"DO $$ BEGIN RAISE EXCEPTION 'ended' USING ERRCODE = '{code}'; END $$")
        return is_interruption(raised)

    assert list(filter(is_ended_by, [*REPEATED, "57014", "53100", "40P01", "23505", "25P02"])) == REPEATED
    database.close()
    assert is_interruption(failure(Database("postgresql+psycopg://127.0.0.1:1/none"), "SELECT 1"))
    assert not is_interruption(NoFreeConnection())


def outages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, bool]]:
    """The level of each line, and whether it has a traceback."""
    return [(record.levelno, bool(record.exc_info)) for record in caplog.records if record.name == logger.name]


def test_an_outage_is_logged_in_one_line_per_failure_with_one_traceback(
    own_postgres: OwnPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(own_postgres.url)
    with own_postgres.away():
        for _ in range(3):
            log_failure(logger, "not done", failure(database, "SELECT 1"))
    assert outages(caplog) == [(logging.WARNING, True), (logging.WARNING, False), (logging.WARNING, False)]
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_the_next_outage_is_logged_in_full_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = failure(Database("postgresql+psycopg://127.0.0.1:1/none"), "SELECT 1")
    for quiet in (60.0, 0.0):
        monkeypatch.setattr(outage, "QUIET_SECONDS", quiet)
        log_failure(logger, "not done", gone)
    assert outages(caplog) == [(logging.WARNING, True), (logging.WARNING, True)]


def test_failures_that_are_no_outage_keep_every_traceback(services: Services, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        log_failure(logger, "not done", failure(services.database, "nonsense"))
    assert outages(caplog) == [(logging.ERROR, True), (logging.ERROR, True)]


def test_a_driver_error_without_a_code_is_classified_by_its_type() -> None:
    """psycopg refuses a NUL before it asks the server."""
    driver_errors = [psycopg.OperationalError("gone"), psycopg.InterfaceError("closed"), psycopg.DataError("NUL")]
    errors = [OperationalError(None, None, driver_error) for driver_error in driver_errors]
    assert [is_unavailable(error) for error in errors] == [True, True, False]
