"""A failure that a connection carries on ends it: the next use has another one (app/db/outage.py)."""

from __future__ import annotations

import multiprocessing
import os
import select
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.db.database import Database, accepts_writes
from app.db.outage import failure_of, is_unavailable
from app.db.prepared import CompiledStatement, PreparedStatement
from tests.support.forked import ForkedProcess
from tests.support.own_postgres import OwnPostgres
from tests.support.servers import PATIENCE, scratch_database, wait_until

each = pytest.mark.parametrize
NOBODY = 65534


def backend(database: Database) -> int:
    with database.read() as session:
        return int(session.execute(text("SELECT pg_backend_pid()")).scalar_one())


def fails(database: Database, statement: str) -> SQLAlchemyError:
    with pytest.raises(SQLAlchemyError) as caught, database.write() as transaction:
        transaction.connection().execute(text(statement))
    return caught.value


# -------------------------------------------------------------------------------------------------- SQLite


def writes_as_nobody(url: str, moments: Any) -> None:
    """Opens the database as a user who may not write it, and writes it at each of the moments."""
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    database = Database(url)
    with database.read() as session:
        session.execute(text("SELECT * FROM numbers")).all()
    moments.send("opened")
    while moments.recv():
        try:
            with database.write() as transaction:
                transaction.execute(text("INSERT INTO numbers VALUES (1)"))
            moments.send("written")
        except SQLAlchemyError as error:
            moments.send(str(error.__cause__))


def test_a_connection_that_was_opened_while_the_file_could_not_be_written_is_replaced(tmp_path: Path) -> None:
    """The connection is opened by another user, since nothing is unwritable for root."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "tms.sqlite3"
    keeper = sqlite3.connect(path)
    keeper.execute("PRAGMA journal_mode=WAL")
    keeper.execute("CREATE TABLE numbers (number)")
    keeper.commit()  # and stays open, so that the files of the log are there

    def allow(mode: int) -> None:
        for file in folder.iterdir():
            file.chmod(mode & 0o666)
        folder.chmod(mode)

    for parent in [*folder.parents][:-1]:
        parent.chmod(parent.stat().st_mode | 0o011)
    allow(0o555)
    moments, theirs = multiprocessing.Pipe()
    process = ForkedProcess(tmp_path / "log", writes_as_nobody, f"sqlite:///{path}", theirs)
    theirs.close()

    def said(word: object = None) -> Any:
        if word is not None:
            moments.send(word)
        assert moments.poll(PATIENCE), (tmp_path / "log").read_text()
        return moments.recv()

    try:
        assert said() == "opened"
        assert said(True) == "attempt to write a readonly database"
        allow(0o777)
        assert said(True) == "written"
        allow(0o555)
        moments.send(False)
        assert process.wait() == 0
    finally:
        process.kill()
        moments.close()
        keeper.close()


def test_a_connection_that_writes_nothing_more_is_replaced_at_its_first_failure(tmp_path: Path) -> None:
    """The driver says the same of a connection that was opened read-only; a probe of readiness ends it, too."""
    database = Database(f"sqlite:///{tmp_path}/tms.sqlite3")
    with database.write() as transaction:
        transaction.execute(text("CREATE TABLE numbers (number)"))
    for use in (insert_fails, probe_fails):
        with database.read() as session:
            session.execute(text("PRAGMA query_only=ON"))
        assert is_unavailable(use(database))
        with database.write() as transaction:
            transaction.execute(text("INSERT INTO numbers VALUES (1)"))
    assert accepts_writes(database)
    database.close()


def insert_fails(database: Database) -> SQLAlchemyError:
    return fails(database, "INSERT INTO numbers VALUES (1)")


def probe_fails(database: Database) -> SQLAlchemyError:
    with pytest.raises(SQLAlchemyError) as caught:
        accepts_writes(database)
    return caught.value


def test_a_file_that_is_replaced_is_read_by_the_next_use(tmp_path: Path) -> None:
    """No failure makes the process open the new file: a connection would go on with the old one."""
    path, other = tmp_path / "tms.sqlite3", tmp_path / "other.sqlite3"
    for number, file in enumerate((path, other)):
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE numbers AS SELECT ? AS number", (number,))
        connection.close()
    database = Database(f"sqlite:///{path}")
    numbers = []
    for _ in range(2):
        with database.read() as session:
            numbers.append(session.execute(text("SELECT number FROM numbers")).scalar_one())
        other.replace(path) if other.exists() else None
    assert numbers == [0, 1]
    database.close()


# ---------------------------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def database(own_postgres: OwnPostgres) -> Any:
    """A database over one connection."""
    with scratch_database(own_postgres.url) as url:
        made = Database(url, pool_size=1)
        yield made
        made.close()


@each(
    "statement",
    [
        "CREATE TABLE numbers (number int)",
        "SELECT * FROM no_such_table",
        "EXECUTE no_such_statement",
        "SELECT pg_terminate_backend(pg_backend_pid())",
    ],
    ids=["read-only", "search path", "prepared statement", "admin shutdown"],
)
def test_a_failure_that_a_connection_carries_on_ends_it(database: Database, statement: str) -> None:
    with database.read() as session:
        session.execute(text("SET default_transaction_read_only = on"))
    before = backend(database)
    fails(database, statement)
    assert backend(database) != before
    with database.write() as transaction:
        transaction.execute(text("CREATE TABLE written (number int)"))


def test_a_transaction_that_was_ended_for_its_length_ends_the_connection(database: Database) -> None:
    before = backend(database)
    with database.write() as transaction:
        transaction.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
        driver: Any = transaction.connection().connection.driver_connection
        wait_until(lambda: select.select([driver], [], [], 0)[0], "the server has ended it")
        with pytest.raises(SQLAlchemyError) as caught:
            transaction.execute(text("SELECT 1"))
        transaction.rollback()
    assert is_unavailable(caught.value)
    assert backend(database) != before


def test_a_prepared_statement_whose_columns_have_changed_ends_its_connection(database: Database) -> None:
    """The driver would use it again and again."""
    with database.write() as transaction:
        transaction.execute(text("CREATE TABLE numbers (number int)"))
    with database.read() as session:
        before = session.connection().connection.driver_connection
        before.prepare_threshold = 0  # type: ignore[union-attr]
        before.execute("SELECT * FROM numbers")  # type: ignore[union-attr]
    with psycopg.connect(database.engine.url.set(drivername="postgresql").render_as_string(False)) as other:
        other.execute("ALTER TABLE numbers ALTER number TYPE text")

    def read() -> None:
        with database.read() as session:
            session.connection().exec_driver_sql("SELECT * FROM numbers")

    with pytest.raises(SQLAlchemyError, match="cached plan") as caught:
        read()
    assert is_unavailable(caught.value)
    read()


def test_a_failure_of_one_statement_ends_no_connection(database: Database) -> None:
    before = backend(database)
    for statement in ("nonsense", "SELECT 1 / 0", "SELECT no_such_column FROM pg_class"):
        assert not is_unavailable(fails(database, statement))
    assert backend(database) == before


@each("use", [PreparedStatement.tuples, PreparedStatement.run], ids=["read", "write"])
def test_statements_on_the_driver_end_their_connection_likewise(database: Database, use: Callable[..., object]) -> None:
    before = backend(database)
    missing: Any = PreparedStatement.__new__(PreparedStatement)
    missing._compiled = CompiledStatement("SELECT * FROM no_such_table", {}, {}, [])
    with pytest.raises(SQLAlchemyError), database.write() as transaction:
        use(missing, transaction)
    assert backend(database) != before


@each("state", ["25P02", "25006", "25P03", "57P01", "57P05", "08006", "26000", "58030", "XX001", "3F000"])
def test_what_lasts_is_a_table(state: str) -> None:
    """Each state stands for one kind of failure that lasts. A failure that passes by itself leaves the connection
    alone."""
    assert failure_of(psycopg.errors.lookup(state)()).lasts
    for passing in ("40001", "53100", "55P03", "57014", "23505"):
        assert not failure_of(psycopg.errors.lookup(passing)()).lasts
