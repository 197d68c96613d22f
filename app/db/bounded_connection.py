"""A connection to PostgreSQL that waits no longer than the patience of who uses it (app/db/wait_budget.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import psycopg
from psycopg.abc import PQGen

from app.db import wait_budget
from app.db.circuit_breaker import Standstill

CONNECT_SECONDS = 3
LEAST_CONNECT_SECONDS = 2
LEAST = {"commit": 2.0, "rollback": 0.5, "reset": 0.5, "connection": 0.5}
"""Seconds that are left for ending a transaction, or making a connection. A commit that nobody waits for has an unknown
end."""
CANCEL_SECONDS = 1.0
"""For asking the server to cancel a statement, and again for its answer."""


class PatientConnection(psycopg.Connection[Any]):
    """The driver's, with an end to every wait.

    A statement that takes too long is cancelled, so that the server does not go on with what nobody waits for. Where
    the server does not even answer to that, the connection is closed: that server hangs, or cannot be reached. A
    commit is not cancelled: when it waits for a standby it is done already, and whether it is remains unknown.
    """

    standstill: Standstill
    is_new = True
    """Not handed out yet: who makes it does not close it when a statement fails."""
    _ending: str | None = None
    """Which end of a transaction is under way."""

    @classmethod
    def open(cls, standstill: Standstill, arguments: tuple[Any, ...], options: dict[str, Any]) -> Self:
        """A new connection. Raises `psycopg.OperationalError`."""
        limit = wait_budget.current().limit(LEAST_CONNECT_SECONDS)
        seconds = int(min(limit or CONNECT_SECONDS, CONNECT_SECONDS))
        with wait_budget.current().counted():
            try:
                made = cls.connect(*arguments, **{"connect_timeout": seconds, **options})
            except psycopg.errors.ConnectionTimeout:
                standstill.begin()
                raise
            except psycopg.OperationalError:
                standstill.end()
                raise
        standstill.end()
        made.standstill = standstill
        return made

    def commit(self) -> None:
        """Ends the transaction."""
        with self._ends("commit"):
            super().commit()

    def rollback(self) -> None:
        """Undoes the transaction."""
        with self._ends("rollback"):
            super().rollback()

    def set_autocommit(self, value: bool) -> None:
        """The pool resets it when a connection is given back, and would lose one that raises."""
        if not self.closed:
            with self._ends("reset"):
                super().set_autocommit(value)

    def set_isolation_level(self, value: psycopg.IsolationLevel | None) -> None:
        """The same."""
        if not self.closed:
            with self._ends("reset"):
                super().set_isolation_level(value)

    @contextmanager
    def _ends(self, how: str) -> Iterator[None]:
        self._ending = how
        try:
            yield
        finally:
            self._ending = None

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Where the driver waits for the server. Raises `psycopg.OperationalError` when it has taken too long."""
        limit = self._limit() if timeout is None else timeout
        began = time.monotonic()
        with wait_budget.current().counted():
            try:
                found = super().wait(gen, interval, limit)
            except psycopg.OperationalError:
                if limit is None or time.monotonic() - began < limit:
                    raise  # these are the words of the server or of the network
                self._give_up(gen, limit)
        if self.standstill.lasts:
            self.standstill.end()
        return found

    def _limit(self) -> float | None:
        """Seconds; what has been begun can always be ended."""
        if self._ending or self.is_new:
            return wait_budget.current().limit(LEAST[self._ending or "connection"])
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
            self.standstill.begin()
        self.pgconn.finish()
        raise psycopg.OperationalError(f"the database has not answered within {seconds:.1f} seconds")

    def _is_cancelled(self) -> bool:
        """Whether the server was there to be asked."""
        try:
            self.cancel_safe(timeout=CANCEL_SECONDS)
        except psycopg.Error:
            return False
        return True
