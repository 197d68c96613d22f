"""The database of a process: sessions that read, transactions that write, and actions after a commit."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import psycopg
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from app.db import bounded_connection
from app.db.address_forms import AddressDigests, Digest
from app.db.bounded_connection import DatabaseCircuitBreaker
from app.db.engine import WRITE_OPTION, begin_writing, make_engine
from app.db.outage import DISCARD_KEY, OutcomeUnknown, note_failure
from app.db.prepared import DriverStatement, execute_together_on_driver

RETRIED_SQLSTATES = ("40P01", "23505")
"""PostgreSQL's codes for a deadlock and for a row that a unique index refused. A use case that may meet an existing row
has raised its own error by then (app/contacts/rules.py)."""
RETRIES = 3
PAUSE = (0.02, 0.1)
"""Seconds before the next try, at random: otherwise both transactions could collide again."""

_random = secrets.SystemRandom()

Result = TypeVar("Result")


class ReadSession(Session):
    """A session for selects, over one connection that it checks out with its first statement.

    SQLAlchemy's own bookkeeping of transactions begins only with the first ORM statement: without it a session costs a
    third, which matters to prepared statements (app/db/prepared.py).
    """

    def __init__(
        self, engine: Engine, circuit_breaker: DatabaseCircuitBreaker, digests: AddressDigests, **options: Any
    ) -> None:
        super().__init__(autoflush=False, **options)
        self.digests = digests
        self._engine = engine
        self._circuit_breaker = circuit_breaker
        self._connection: Connection | None = None

    def connection(self, *_: Any, **__: Any) -> Connection:
        """The session's connection. Raises `OperationalError` at once while the database hangs."""
        if self._connection is None:
            self._connection = self._check_out()
        return self._connection

    def _check_out(self) -> Connection:
        budget = bounded_connection.current()
        try:
            self._circuit_breaker.check(budget)
        except psycopg.OperationalError as error:
            raise OperationalError(None, None, error, connection_invalidated=True) from error
        with budget.measured():
            return self._engine.connect()

    def get_bind(self, *_: Any, **__: Any) -> Connection:
        return self.connection()

    def close(self) -> None:
        """Returns the connection to the pool."""
        try:
            if self.in_transaction():
                super().close()
        finally:
            if self._connection is not None:
                connection, self._connection = self._connection, None
                connection.close()


class Transaction(ReadSession):
    """A writing session: its connection is in a transaction from the first statement to the commit or rollback.

    Actions registered with `after_commit` run once the data is committed, and never otherwise. The last statements of
    a transaction run in one round trip: `last_rows` (app/db/bulk.py), and then those that the actions in `at_commit`
    return, whose locks are therefore held only as long as that and the commit take (app/db/counters.py).
    """

    def __init__(self, engine: Engine, circuit_breaker: DatabaseCircuitBreaker, digests: AddressDigests) -> None:
        super().__init__(engine, circuit_breaker, digests, expire_on_commit=False)
        self._after_commit: list[Callable[[], object]] = []
        self.last_rows: list[DriverStatement] = []
        self.at_commit: dict[str, Callable[[], Sequence[DriverStatement]]] = {}

    def connection(self, *_: Any, **__: Any) -> Connection:
        """The session's connection, in a transaction. The ORM joins it, and leaves its end to this class."""
        connection = super().connection()
        if not connection.in_transaction():
            begin_writing(connection)
        return connection

    def limit_lock_waits(self, seconds: float) -> None:
        """From now on, a statement that has waited that long for a lock of PostgreSQL fails (`is_blocked`)."""
        if self.connection().dialect.name == "postgresql":
            self.execute(text(f"SET LOCAL lock_timeout = '{round(seconds * 1000)}ms'"))

    def commit(self) -> None:
        """Flushes the ORM's changes and commits. Raises `OutcomeUnknown` if the connection broke before the server
        confirmed the commit."""
        if self.in_transaction():
            super().commit()
        self.write_last()
        if self._connection is not None and self._connection.in_transaction():
            try:
                self._connection.commit()
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise OutcomeUnknown.of(error) from error
                raise

    def write_last(self) -> None:
        """Runs the last statements, which the commit does."""
        last = [*self.last_rows, *(statement for action in self.at_commit.values() for statement in action())]
        self.last_rows, self.at_commit = [], {}
        if last:
            execute_together_on_driver(self.connection(), last)

    def rollback(self) -> None:
        """The next statement begins another transaction."""
        self.last_rows, self.at_commit = [], {}
        if self.in_transaction():
            super().rollback()
        if self._connection is not None and self._connection.in_transaction():
            self._connection.rollback()

    def after_commit(self, action: Callable[[], object]) -> None:
        """Registers an action to run after the commit (docs/decisions/002-wake-ups-without-content.md)."""
        self._after_commit.append(action)

    def join(self, connection: Connection) -> None:
        """Makes the session write in the transaction that the connection is in, which somebody else ends."""
        self._connection = connection

    def leave(self, *, keep: bool) -> None:
        """Ends the session within such a transaction; its changes are written to it, or forgotten."""
        try:
            if keep and self.in_transaction():
                super().commit()
            if keep:
                self.write_last()
        finally:
            self._connection = None
            self.close()

    def release(self) -> None:
        """Runs the registered actions."""
        actions, self._after_commit = self._after_commit, []
        for action in actions:
            action()


class Database:
    """One engine and its transactions.

    `read()` and `write()` are the only ways to a session. A use case gets the session from its caller, so that one
    request is one transaction.
    """

    def __init__(
        self, url: str, *, pool_size: int = 10, open_digest_key: Callable[[str], Digest | None] = lambda _: None
    ) -> None:
        self._circuit_breaker = DatabaseCircuitBreaker()
        self._digests = AddressDigests(open_digest_key)
        self.engine = make_engine(url, pool_size=pool_size, autocommit=True, circuit_breaker=self._circuit_breaker)
        self._writing = self.engine.execution_options(**{WRITE_OPTION: True})
        self.before_close: set[Callable[[], None]] = set()
        """Each ends a thread that uses the database, and returns once it has ended."""

    @property
    def is_postgresql(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @property
    def is_server(self) -> bool:
        """Whether it may outlive this machine: a file is lost with it."""
        return self.is_postgresql

    @property
    def is_hanging(self) -> bool:
        """Whether the server did not answer in time, and has not answered since."""
        return self._circuit_breaker.is_open

    def note_failure(self) -> float:
        """The database has failed a request. Returns for how many seconds it has been failing in this process."""
        return self._circuit_breaker.note_failure()

    def has_failed_within(self, seconds: float) -> bool:
        """Whether the database has failed this process in the last so many seconds."""
        return time.monotonic() - self._circuit_breaker.failed_at < seconds

    def read(self) -> ReadSession:
        """A session for selects. On PostgreSQL each select sees what is committed by then."""
        return ReadSession(self.engine, self._circuit_breaker, self._digests)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A session whose changes are committed at the end of the block, or not at all if it raises."""
        with Transaction(self._writing, self._circuit_breaker, self._digests) as transaction:
            yield transaction
            transaction.commit()
        transaction.release()

    @contextmanager
    def part_of(self, connection: Connection) -> Iterator[Transaction]:
        """A part of a longer transaction, which somebody else commits: if the block raises, nothing but its own changes
        is undone. What was registered with `after_commit` does not run."""
        with connection.begin_nested():
            part = Transaction(self._writing, self._circuit_breaker, self._digests)
            part.join(connection)
            keep = False
            try:
                yield part
                keep = True
            finally:
                part.leave(keep=keep)

    def transact(self, work: Callable[[Transaction], Result]) -> Result:
        """Runs the work in a writing transaction, and again if PostgreSQL ended it in favour of another one.

        Two transactions that write the same rows in different order can deadlock, and a unique index can refuse a row
        because of another one that has been deleted since. The transaction is then rolled back, so the work must do
        nothing that a rollback does not undo.
        """
        for _ in range(RETRIES):
            try:
                with self.write() as transaction:
                    return work(transaction)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in RETRIED_SQLSTATES:
                    raise
            time.sleep(_random.uniform(*PAUSE))
        with self.write() as transaction:
            return work(transaction)

    @property
    def pool_state(self) -> tuple[int, int, int]:
        """Connections in use and idle, and the most that the pool keeps; zeros for a pool without a limit."""
        pool = self.engine.pool
        if not isinstance(pool, QueuePool):
            return 0, 0, 0
        return pool.checkedout(), pool.checkedin(), pool.size()

    def close(self) -> None:
        """Closes all connections, before a fork and at the end of a process."""
        for end in tuple(self.before_close):
            end()
        self.engine.dispose()


# Whether the database accepts writes: by the smallest possible one, in a transaction that is committed.

PROBE_SECONDS = 3.0
EMIT_MESSAGE = text("SELECT current_setting('transaction_read_only'), pg_logical_emit_message(true, 'tms', '')")
"""Goes through the write-ahead log and the commit, also to a synchronous standby, and into no table."""


def accepts_writes(database: Database) -> bool:
    """False for a read-only server. Raises `SQLAlchemyError` for any other reason."""
    if database.is_postgresql:
        with database.write() as transaction:
            is_open = bool(transaction.execute(EMIT_MESSAGE).one()[0] == "off")
            if not is_open:  # another server may have taken its place meanwhile
                transaction.connection().info[DISCARD_KEY] = True
        return is_open
    with database.engine.connect() as connection:
        _write_to_sqlite(connection)
    return True


def _write_to_sqlite(connection: Connection) -> None:
    """Rewrites an unused number of the file header with its own value."""
    driver = cast(sqlite3.Connection, connection.connection.driver_connection)
    (usual,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute(f"PRAGMA busy_timeout={round(PROBE_SECONDS * 1000)}")
    try:
        driver.execute("BEGIN IMMEDIATE")
        (number,) = driver.execute("PRAGMA user_version").fetchone()
        driver.execute(f"PRAGMA user_version={number}")
        driver.execute("COMMIT")
    except sqlite3.Error as error:
        driver.rollback()
        note_failure(connection, error)
        raise OperationalError(None, None, error) from error
    finally:
        driver.execute(f"PRAGMA busy_timeout={usual}")
