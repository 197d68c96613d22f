"""One long job of writing in many short transactions, between which other writers get their turn
(docs/csv.md#while-the-service-runs).

SQLite has one writer at a time and no queue: who waits looks again after at most a tenth of a second, and would find
the lock taken each time if the next transaction began at once. So the job pauses a little longer than that. The size of
its transactions follows the time that they take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from app.db.database import Database, Transaction

TARGET_SECONDS = 0.15
"""Seconds that a transaction is meant to take."""
PAUSE_SECONDS = 0.15
"""Seconds between two transactions on SQLite."""
FIRST_ROWS, MIN_ROWS, MAX_ROWS = 100, 20, 1000
"""Rows of a transaction: of the first, and of any."""

Result = TypeVar("Result")


class WriteTurns:
    """The transactions of one job."""

    def __init__(
        self,
        database: Database,
        *,
        target: float = TARGET_SECONDS,
        share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Each transaction is meant to take `target` seconds, and all of them together `share` of the time."""
        self._database, self._clock, self._sleep = database, clock, sleep
        self._target, self._share = target, share
        self._ended: float | None = None
        self._pause = 0.0
        self.size = FIRST_ROWS
        """Rows that the next transaction should write."""

    def take(self, rows: int, work: Callable[[Transaction], Result], *, keep: bool = True) -> Result:
        """Runs work that writes so many rows in a transaction of its own, which is rolled back unless `keep`."""
        self._let_others_write()
        began = 0.0
        undone: list[Result] = []

        def timed(transaction: Transaction) -> Result:
            nonlocal began
            transaction.connection()  # On SQLite this waits for the other writer.
            began = self._clock()
            result = work(transaction)
            if not keep:
                undone.append(result)
                raise _Rollback
            return result

        try:
            result = self._database.transact(timed)
        except _Rollback:
            result = undone[-1]
        self._ended = self._clock()
        seconds = self._ended - began
        self._adapt(rows, seconds)
        least = 0.0 if self._database.is_postgresql else PAUSE_SECONDS
        self._pause = max(least, seconds / self._share - seconds)
        return result

    def _let_others_write(self) -> None:
        if self._ended is not None:
            left = self._pause - (self._clock() - self._ended)
            if left > 0:
                self._sleep(left)

    def _adapt(self, rows: int, seconds: float) -> None:
        fitting = int(rows * self._target / max(seconds, 0.001))
        self.size = max(MIN_ROWS, min(MAX_ROWS, fitting, 2 * self.size))


class _Rollback(Exception):
    """Has a transaction rolled back that has done its work."""
