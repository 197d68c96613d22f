"""Behind a pooler in transaction mode nothing depends on the state of a server session
(docs/databases.md#postgresql)."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import psycopg
import pytest
from sqlalchemy import text

from app.db import bounded_connection
from app.db.database import Database
from tests.support.own_postgres import OwnPostgres
from tests.support.pooler import pooler

FOUND = "a pooler is between this process and PostgreSQL: continuing without prepared statements"


def prepare_threshold(database: Database) -> int | None:
    """The number of runs after which a statement is prepared on the server."""
    with database.read() as session:
        driver = session.connection().connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return driver.prepare_threshold


def ask_often(database: Database, number: int) -> list[tuple[int, int]]:
    """The answers to two statements that clients give the same name, with different texts."""
    answers = []
    for count in range(12):
        with database.write() as transaction:
            given = {"given": number * 1000 + count}
            first, second = ("SELECT CAST(:given AS int)", "SELECT CAST(:given AS int) * 2")
            first_number = transaction.connection().execute(text(first if number % 2 else second), given).scalar_one()
            two = transaction.connection().execute(text(second if number % 2 else first), given).scalar_one()
        answers.append((first_number, two) if number % 2 else (two, first_number))
    return answers


@pytest.mark.parametrize(
    ("size", "told", "refuses_options"),
    [(2, "made up", False), (2, "made up", True), (2, "first", False), (2, "in turn", False), (3, "in turn", False)],
)
def test_a_pooler_is_detected_at_the_first_connection_and_every_answer_is_right(
    own_postgres: OwnPostgres, caplog: pytest.LogCaptureFixture, size: int, told: str, refuses_options: bool
) -> None:
    """The pooler may report any process ids, and may refuse session options."""
    with pooler(own_postgres.url, size, told, refuses_options=refuses_options) as between, ExitStack() as stack:
        databases = [stack.enter_context(closing(Database(between.url, pool_size=2))) for _ in range(4)]
        assert {prepare_threshold(database) for database in databases} == {None}
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(ask_often, databases, range(4)))
        for number, answer in enumerate(answers):
            assert answer == [(number * 1000 + count, (number * 1000 + count) * 2) for count in range(12)]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [FOUND] * 4


def test_a_request_that_opens_a_connection_behind_a_pooler_may_still_be_repeated(own_postgres: OwnPostgres) -> None:
    with pooler(own_postgres.url, 2, "in turn") as between, closing(Database(between.url, pool_size=2)) as database:
        bounded_connection.begin_request()
        try:
            assert prepare_threshold(database) is None
            assert not bounded_connection.current().may_have_committed
        finally:
            bounded_connection.end_request()


def test_a_pooler_with_a_single_connection_is_detected_by_its_waiting(
    own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.postgresql.PROBE_SECONDS", 0.2)
    monkeypatch.setattr("app.db.bounded_connection.CANCEL_SECONDS", 0.1)
    with pooler(own_postgres.url, 1, "in turn") as between, closing(Database(between.url)) as database:
        assert prepare_threshold(database) is None
        assert ask_often(database, 1)[-1] == (1011, 2022)


def test_without_a_pooler_statements_are_prepared(own_postgres: OwnPostgres, caplog: pytest.LogCaptureFixture) -> None:
    with closing(Database(own_postgres.url)) as database:
        assert prepare_threshold(database) == 5
    assert FOUND not in caplog.messages


def test_a_pooler_that_is_added_later_is_detected_by_the_next_connection(
    own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server behind an address may change while a process runs."""
    with pooler(own_postgres.url, 2, "made up") as between, closing(Database(between.url)) as database:
        with monkeypatch.context() as patched:
            patched.setattr("app.db.postgresql.is_pooled", lambda *_: False)
            assert prepare_threshold(database) == 5
        with database.read() as session, database.read() as other:
            session.connection()
            driver = other.connection().connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            assert driver.prepare_threshold is None
