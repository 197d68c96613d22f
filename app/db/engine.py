"""Engines for SQLite and PostgreSQL: every setting of a connection that the service relies on."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from psycopg import IsolationLevel
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from app.db.bounded_connection import BoundedConnection, DatabaseCircuitBreaker
from app.db.outage import DISCARD_KEY, note_failure
from app.db.postgresql import postgresql_engine
from app.db.types import dump_json

BUSY_TIMEOUT_MS = 30_000
BUSY_PAUSE = 0.02
"""Seconds between two attempts to switch a new SQLite file to WAL mode."""
MAX_ANSWER_BYTES = 1024 * 1024
"""Bytes; reconnecting costs less than transferring as many."""
FILE_KEY = "tms_file"
"""Key in the `info` of a connection to SQLite: which file it has opened."""
WRITE_OPTION = "tms_write"
"""Execution option of a connection whose transaction writes: SQLite then takes its write lock at once."""


def make_engine(
    url: str, *, pool_size: int = 10, autocommit: bool = False, circuit_breaker: DatabaseCircuitBreaker | None = None
) -> Engine:
    """An engine for the URL with the settings that this service needs.

    With `autocommit` each PostgreSQL statement is a transaction of its own, except after `begin_writing`: beginning and
    ending a transaction around a select costs two round trips. SQLite runs in the process anyway. `circuit_breaker` is
    opened when PostgreSQL hangs.
    Error texts leave out the parameters of statements: they end in the log, where addresses and bodies have no place.
    """
    if make_url(url).get_backend_name() == "sqlite":
        engine = _sqlite(url)
    else:
        breaker = circuit_breaker or DatabaseCircuitBreaker()
        engine = postgresql_engine(url, breaker, pool_size=pool_size, autocommit=autocommit)
    event.listen(engine, "handle_error", _on_error)
    if autocommit and engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _on_postgresql_connect)
        event.listen(engine, "checkin", _on_postgresql_checkin)
    return engine


@contextmanager
def temporary_engine(url: str, *, autocommit: bool = False) -> Iterator[Engine]:
    """An engine as of `make_engine`, whose connections are closed at the end."""
    engine = make_engine(url, autocommit=autocommit)
    try:
        yield engine
    finally:
        engine.dispose()


def begin_writing(connection: Connection) -> None:
    """Begins a transaction on a connection that has the option `WRITE_OPTION`."""
    driver: Any = connection.connection.driver_connection
    if isinstance(driver, BoundedConnection):
        driver.use_transactions(True)
    connection.begin()


def release_after(session: Session, size: int) -> None:
    """Closes PostgreSQL's connection at the end of a session that has transferred many bytes: libpq never frees the
    buffer of its largest statement or result."""
    connection = session.connection()
    if size > MAX_ANSWER_BYTES and connection.dialect.name == "postgresql":
        connection.info[DISCARD_KEY] = True


def _on_error(context: ExceptionContext) -> None:
    if context.connection is not None:
        note_failure(context.connection, context.original_exception)


def _on_postgresql_connect(connection: BoundedConnection, _record: object) -> None:
    # Of its transactions, whatever the server's default is. Once per connection: an isolation level in the execution
    # options is set and reset by each transaction, for 30 microseconds.
    connection.isolation_level = IsolationLevel.READ_COMMITTED


def _on_postgresql_checkin(connection: BoundedConnection | None, _record: object) -> None:
    if connection is not None:
        connection.use_transactions(False)


def _sqlite(url: str) -> Engine:
    engine = create_engine(
        url,
        json_serializer=dump_json,
        json_deserializer=orjson.loads,
        hide_parameters=True,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "autocommit": sqlite3.LEGACY_TRANSACTION_CONTROL}
        if hasattr(sqlite3, "LEGACY_TRANSACTION_CONTROL")
        else {"timeout": BUSY_TIMEOUT_MS / 1000},
    )
    path = engine.url.database
    event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_sqlite_begin)
    event.listen(engine, "checkin", _on_sqlite_checkin)
    if path and path != ":memory:":
        event.listen(engine, "connect", lambda _, record: record.info.update({FILE_KEY: _file_at(path)}))
        event.listen(engine, "checkout", lambda _, record, __: _check_file(path, record))
    return engine


def _file_at(path: str) -> tuple[int, int] | None:
    """Device and inode of the file that has that path now; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_file(path: str, record: ConnectionPoolEntry) -> None:
    """Replaces a connection to a file in whose place is another one: it would go on reading the old one."""
    if _file_at(path) not in (None, record.info.get(FILE_KEY)):
        raise DisconnectionError("the file of the database was replaced")


def _on_sqlite_checkin(_connection: object, record: ConnectionPoolEntry) -> None:
    if record.info.pop(DISCARD_KEY, False):
        record.invalidate()


def _on_sqlite_connect(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own BEGIN comes too late for reads and cannot be IMMEDIATE: `_on_sqlite_begin` sends it.
    connection.isolation_level = None
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten in the transaction that deletes it, on every build of SQLite
    # (docs/privacy.md#remains-in-files).
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Nearly always the file is in that mode already. Switching a new file needs exclusive access, and SQLite's own
    timeout does not wait for another process that writes it at that moment, as when several start together."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(BUSY_PAUSE)


def _on_sqlite_begin(connection: Connection) -> None:
    # A transaction that begins as a reader and writes later can fail at once with "database is locked";
    # one that takes the write lock first only waits.
    write = connection.get_execution_options().get(WRITE_OPTION)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def without_credentials(url: str) -> str:
    """The URL without user, password and options."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return f"sqlite:///{parsed.database}"
    hosts = [parsed.host] if parsed.host else _listed(parsed.query.get("host", "localhost"))
    ports = f":{parsed.port}" if parsed.port else ""
    return f"postgresql://{','.join(hosts)}{ports}/{parsed.database or ''}"


def _listed(value: str | tuple[str, ...]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
