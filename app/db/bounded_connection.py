"""A connection to PostgreSQL whose every wait ends within the wait budget of the request or task that uses it
(app/db/wait_budget.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import psycopg
from psycopg.abc import PQGen

from app.db import wait_budget
from app.db.circuit_breaker import DatabaseCircuitBreaker
from app.db.host_addresses import with_addresses

CONNECT_SECONDS = 3
MIN_CONNECT_SECONDS = 2
RESERVED_SECONDS = {"commit": 2.0, "rollback": 0.5, "reset": 0.5, "connection": 0.5}
"""Time that remains, whatever the budget, for ending a transaction or opening a connection: without waiting for a
commit, its outcome is unknown."""
CANCEL_SECONDS = 1.0
"""For the request to cancel a statement, and again for its answer."""


class BoundedConnection(psycopg.Connection[Any]):
    """The driver's connection with a time limit on every wait.

    A statement that takes too long is cancelled, so that the server does not continue work that no client waits for. A
    server that does not answer the cancel request either hangs or cannot be reached: the connection is closed. A
    commit is not cancelled: while it waits for a standby it is done already, and its outcome remains unknown.
    """

    circuit_breaker: DatabaseCircuitBreaker
    is_new = True
    """Not yet handed out by the pool: the code that opens it does not close it if a statement fails."""
    _ending: str | None = None
    """Whether a commit, rollback or reset is under way."""

    @classmethod
    def open(cls, circuit_breaker: DatabaseCircuitBreaker, arguments: tuple[Any, ...], options: dict[str, Any]) -> Self:
        """A new connection. Raises `psycopg.OperationalError`."""
        limit = wait_budget.current().limit(MIN_CONNECT_SECONDS)
        seconds = int(min(limit or CONNECT_SECONDS, CONNECT_SECONDS))
        with wait_budget.current().measured():
            try:
                options = with_addresses({"connect_timeout": seconds, **options}, seconds)
                connection = cls.connect(*arguments, **options)
            except psycopg.errors.ConnectionTimeout:
                circuit_breaker.open()
                raise
            except psycopg.OperationalError:
                circuit_breaker.close()
                raise
        circuit_breaker.close()
        connection.circuit_breaker = circuit_breaker
        return connection

    def commit(self) -> None:
        with self._ending_with("commit"):
            super().commit()

    def rollback(self) -> None:
        with self._ending_with("rollback"):
            super().rollback()

    def set_autocommit(self, value: bool) -> None:
        """The pool resets it when a connection is returned, and would leak one that raises."""
        if not self.closed:
            with self._ending_with("reset"):
                super().set_autocommit(value)

    def set_isolation_level(self, value: psycopg.IsolationLevel | None) -> None:
        """Like `set_autocommit`."""
        if not self.closed:
            with self._ending_with("reset"):
                super().set_isolation_level(value)

    def use_transactions(self, value: bool) -> None:
        """Whether the next statement begins a transaction: the opposite of the driver's `autocommit`, without the lock
        and the wait with which that is changed, which a connection between two transactions does not need."""
        self._autocommit = not value

    @contextmanager
    def _ending_with(self, operation: str) -> Iterator[None]:
        self._ending = operation
        try:
            yield
        finally:
            self._ending = None

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """The driver's wait for the server. Raises `psycopg.OperationalError` when it has taken too long."""
        limit = self._limit() if timeout is None else timeout
        began = time.monotonic()
        with wait_budget.current().measured():
            try:
                result = super().wait(gen, interval, limit)
            except psycopg.OperationalError:
                if limit is None or time.monotonic() - began < limit:
                    raise  # an error of the server or of the network, not of the limit
                self._give_up(gen, limit)
        if self.circuit_breaker.is_open:
            self.circuit_breaker.close()
        return result

    def _limit(self) -> float | None:
        """Seconds. A transaction that has begun can always be ended."""
        if self._ending or self.is_new:
            return wait_budget.current().limit(RESERVED_SECONDS[self._ending or "connection"])
        if wait_budget.current().is_spent:
            raise psycopg.errors.QueryCanceled("the request has waited for the database for too long")
        return wait_budget.current().limit()

    def _give_up(self, gen: PQGen[Any], seconds: float) -> NoReturn:
        if self._ending != "commit" and not self.is_new and self._is_cancelled():
            try:
                super().wait(gen, timeout=CANCEL_SECONDS)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.Error:
                pass
        elif self._ending != "commit":
            self.circuit_breaker.open()
        self.pgconn.finish()
        raise psycopg.OperationalError(f"the database has not answered within {seconds:.1f} seconds")

    def _is_cancelled(self) -> bool:
        """Whether the server accepted the cancel request."""
        try:
            self.cancel_safe(timeout=CANCEL_SECONDS)
        except psycopg.Error:
            return False
        return True
