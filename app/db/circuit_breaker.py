"""Not waiting for a PostgreSQL that hangs while others have just waited in vain: a request that stands in the queue of
a process would otherwise wait for those before it, and then for the database itself.
"""

from __future__ import annotations

import threading
import time

import psycopg

from app.db.wait_budget import Patience

ASK_EVERY = 1.0
"""Seconds between two who ask whether it answers again."""
ASK_FOR = 2.0
"""Seconds that a request waits which asks."""


class Standstill:
    """One per engine. Who waited in vain begins it, any answer ends it, and meanwhile one asks at a time."""

    def __init__(self) -> None:
        self.lasts = False
        self._lock = threading.Lock()
        self._next = 0.0

    def begin(self) -> None:
        """Somebody has waited in vain, and was not even heard when they gave up."""
        with self._lock:
            self.lasts = True
            self._next = time.monotonic() + ASK_EVERY

    def end(self) -> None:
        """There was an answer, of whatever kind."""
        self.lasts = False

    def check(self, patience: Patience) -> None:
        """Raises `psycopg.OperationalError` for who should not ask now."""
        if patience.is_spent:
            raise psycopg.OperationalError("the database has not answered in time")
        if not self.lasts:
            return
        with self._lock:
            if self.lasts and time.monotonic() < self._next:
                raise psycopg.OperationalError("the database did not answer others a moment ago")
            self._next = time.monotonic() + ASK_FOR
        patience.shorten(ASK_FOR)
