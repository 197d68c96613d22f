"""Circuit breaker for PostgreSQL: after a wait that timed out, requests fail at once instead of waiting for a server
that hangs. Without it, a request queued in a process waits for those before it, and then for the database itself.
"""

from __future__ import annotations

import threading
import time

import psycopg

from app.db.wait_budget import WaitBudget

PROBE_INTERVAL = 1.0
"""Seconds between two probes of a server that did not answer."""
PROBE_SECONDS = 2.0
"""Seconds that a probing request waits."""


class DatabaseCircuitBreaker:
    """One per engine. A timeout opens it, any answer closes it; while it is open one request at a time probes."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._next_probe = 0.0

    def open(self) -> None:
        """The server answered neither in time nor to the request to cancel."""
        with self._lock:
            self.is_open = True
            self._next_probe = time.monotonic() + PROBE_INTERVAL

    def close(self) -> None:
        """The server has answered, even if with an error."""
        self.is_open = False

    def check(self, budget: WaitBudget) -> None:
        """Raises `psycopg.OperationalError` for a request that must not use the server now."""
        if budget.is_spent:
            raise psycopg.OperationalError("the database has not answered in time")
        if not self.is_open:
            return
        with self._lock:
            if self.is_open and time.monotonic() < self._next_probe:
                raise psycopg.OperationalError("the database did not answer others a moment ago")
            self._next_probe = time.monotonic() + PROBE_SECONDS
        budget.shorten(PROBE_SECONDS)
