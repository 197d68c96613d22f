"""Requests that are repeated as a whole while another server becomes the primary of PostgreSQL
(docs/databases.md#repeated-requests).

A request that the database has failed before it was asked to commit anything has changed nothing. The HTTP server keeps
it without a thread, and calls the application with it once more a moment later, as long as the request may wait for the
database.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from flask import g, request

from app.db import bounded_connection
from app.db.bounded_connection import WaitBudget
from app.db.outage import is_interruption, reason
from app.http.context import services
from app.ids import Uuids
from app.infrastructure import metrics

_random = secrets.SystemRandom()
logger = logging.getLogger(__name__)

ATTEMPTS_KEY = "tms.attempts"
"""The WSGI variable in which a server that repeats requests keeps `Attempts`."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds before the first repetition, and before each of many."""


@dataclass(slots=True)
class Attempts:
    """The attempts to answer one request, and what a later one takes over from the first."""

    number: int = 0
    pause: float | None = None
    """Seconds after which the server is to repeat the request; None for one that is answered."""
    budget: WaitBudget | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    """Attributes of Flask's `g`: the id of the request, its start, and the state of its rate limit."""
    uuids: Uuids = field(default_factory=Uuids)
    _paused_at: float = 0.0

    def postpone(self, budget: WaitBudget, kept: dict[str, Any]) -> None:
        """Asks the server to repeat the request."""
        self.pause = min(FIRST_PAUSE * 2**self.number, LONGEST_PAUSE) * _random.uniform(0.8, 1.2)
        self.number += 1
        self.budget, self.kept = budget, kept
        self._paused_at = time.monotonic()

    def resume(self) -> None:
        """Begins the next attempt. The pause counts as time in which the request has waited for the database."""
        if self.budget is not None:
            self.budget.left -= time.monotonic() - self._paused_at
        self.pause = None
        self.uuids.use_from_start()


def repeats_later(error: Exception) -> bool:
    """Whether the server repeats the request that has failed so; then nobody gets the response to this attempt."""
    attempts: Attempts | None = request.environ.get(ATTEMPTS_KEY)
    budget = bounded_connection.current()
    if attempts is None or budget.may_have_committed or not is_interruption(error):
        return False
    seconds = services().database.note_failure()
    limit = bounded_connection.REQUEST_SECONDS
    if max(seconds, limit - budget.left) > limit - LONGEST_PAUSE:
        return False
    if not attempts.number:
        logger.info("a request waits for the database: %s", reason(error))
    attempts.postpone(budget, {name: g.get(name) for name in ("request_id", "started", "allowance")})
    metrics.REQUESTS_REPEATED.inc()
    return True


def is_postponed(environ: dict[str, Any]) -> bool:
    """Whether the server repeats the request instead of sending the response to this attempt."""
    attempts: Attempts | None = environ.get(ATTEMPTS_KEY)
    return attempts is not None and attempts.pause is not None
