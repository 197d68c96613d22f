"""The database of a process: transactions to read and to write, and what is released after a commit."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session

from app.db import wait_budget
from app.db.circuit_breaker import DatabaseCircuitBreaker
from app.db.engine import WRITE, make_engine
from app.db.outage import OutcomeUnknown

LOST_TO_ANOTHER = ("40P01", "23505")
"""PostgreSQL's codes for a deadlock, and for a row that a unique index refused. Who meant to write a row that is taken
has said so in its own words by then (app/contacts/identifiers.py)."""
RETRIES = 3
PAUSE = (0.02, 0.1)
"""Seconds before the next try: the other one wakes up and goes first, or both would meet again at once."""

_chance = secrets.SystemRandom()

Result = TypeVar("Result")


class ReadSession(Session):
    """A session for selects, over one connection that it takes with its first statement.

    SQLAlchemy's own bookkeeping of transactions begins only with the first statement that goes through the ORM: without
    it a session costs a third, which the statements of the hottest paths notice (app/db/prepared.py).
    """

    def __init__(self, engine: Engine, circuit_breaker: DatabaseCircuitBreaker, **options: Any) -> None:
        super().__init__(autoflush=False, **options)
        self._engine = engine
        self._circuit_breaker = circuit_breaker
        self._kept: Connection | None = None

    def connection(self, *_: Any, **__: Any) -> Connection:
        """The session's own. Raises `OperationalError` at once while the database hangs."""
        if self._kept is None:
            self._kept = self._connected()
        return self._kept

    def _connected(self) -> Connection:
        budget = wait_budget.current()
        try:
            self._circuit_breaker.check(budget)
        except psycopg.OperationalError as error:
            raise OperationalError(None, None, error, connection_invalidated=True) from error
        with budget.measured():
            return self._engine.connect()

    def get_bind(self, *_: Any, **__: Any) -> Connection:
        """What the ORM runs its statements on."""
        return self.connection()

    def close(self) -> None:
        """Gives the connection back."""
        try:
            if self.in_transaction():
                super().close()
        finally:
            if self._kept is not None:
                kept, self._kept = self._kept, None
                kept.close()


class Transaction(ReadSession):
    """A writing session: its connection is in a transaction from the first statement to the commit or rollback.

    What is given to `after_commit` runs once the data is safe, and never otherwise.
    """

    def __init__(self, engine: Engine, circuit_breaker: DatabaseCircuitBreaker) -> None:
        super().__init__(engine, circuit_breaker, expire_on_commit=False)
        self._after_commit: list[Callable[[], None]] = []

    def connection(self, *_: Any, **__: Any) -> Connection:
        """The session's own, in the transaction. The ORM joins it there, and leaves its end to us."""
        kept = super().connection()
        if not kept.in_transaction():
            kept.begin()
        return kept

    def commit(self) -> None:
        """Writes what the ORM still holds, and ends the transaction. Raises `OutcomeUnknown` when nobody can tell
        whether it did."""
        if self.in_transaction():
            super().commit()
        if self._kept is not None and self._kept.in_transaction():
            try:
                self._kept.commit()
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise OutcomeUnknown.of(error) from error
                raise

    def rollback(self) -> None:
        """Undoes the transaction; another statement begins the next one."""
        if self.in_transaction():
            super().rollback()
        if self._kept is not None and self._kept.in_transaction():
            self._kept.rollback()

    def after_commit(self, action: Callable[[], None]) -> None:
        """Registers an action for the time after the commit (docs/decisions/002-wake-ups-without-content.md)."""
        self._after_commit.append(action)

    def release(self) -> None:
        """Runs the registered actions."""
        actions, self._after_commit = self._after_commit, []
        for action in actions:
            action()


class Database:
    """One engine and its transactions.

    `read()` and `write()` are the only ways to a session; a use case gets the session from its door, so one request
    is one transaction.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self._circuit_breaker = DatabaseCircuitBreaker()
        self.engine = make_engine(url, pool_size=pool_size, autocommit=True, circuit_breaker=self._circuit_breaker)
        # Both databases' own default, which the engine's connections do not have where they commit by themselves.
        isolation = {"isolation_level": "READ COMMITTED"} if self.is_postgresql else {}
        self._writing = self.engine.execution_options(**{WRITE: True}, **isolation)

    @property
    def is_postgresql(self) -> bool:
        """Which of the two dialects this is."""
        return self.engine.dialect.name == "postgresql"

    def read(self) -> ReadSession:
        """A session for selects. On PostgreSQL each sees what is committed by then, as in any transaction there."""
        return ReadSession(self.engine, self._circuit_breaker)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A session whose changes are committed at the end of the block, or not at all when it raises."""
        with Transaction(self._writing, self._circuit_breaker) as transaction:
            yield transaction
            transaction.commit()
        transaction.release()

    def transact(self, work: Callable[[Transaction], Result]) -> Result:
        """Runs the work in a writing transaction, again where PostgreSQL ended it in favour of another one.

        Two transactions that write the same rows in another order can wait for each other, and one can be refused a
        row because of another that is gone when it looks. It is then undone completely, so the work must do nothing
        that its transaction does not undo.
        """
        for _ in range(RETRIES):
            try:
                with self.write() as transaction:
                    return work(transaction)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in LOST_TO_ANOTHER:
                    raise
            time.sleep(_chance.uniform(*PAUSE))
        with self.write() as transaction:
            return work(transaction)

    def refresh_statistics(self) -> None:
        """Lets SQLite look at tables that have grown: without statistics it may walk a list's page index to find one
        address. PostgreSQL does it by itself."""
        if not self.is_postgresql:
            with self._writing.connect() as connection, connection.begin():
                # A sample of each index is enough, and keeps the write lock short however large the tables are.
                connection.exec_driver_sql("PRAGMA analysis_limit=400")
                connection.exec_driver_sql("ANALYZE")

    def close(self) -> None:
        """Closes all connections; used before a fork and at the end of a process."""
        self.engine.dispose()
