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
from app.db.replica import ReplicaFailed
from app.http.context import services
from app.ids import Uuids
from app.infrastructure import metrics

_random = secrets.SystemRandom()
logger = logging.getLogger(__name__)

ATTEMPTS_KEY = "tms.attempts"
"""The WSGI variable in which a server that repeats requests keeps `Attempts`."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds before the first repetition, and before each of many."""
LEAST_SECONDS = 1.0
"""Seconds that the first attempt may wait for the database, however long the request has waited for a thread."""


KEPT_ATTRIBUTES = ("request_id", "started", "allowance", "sign_in_attempts")
"""The attributes of Flask's `g` that a request keeps when it is repeated: its id, its start, and what its limits have
counted, which would otherwise count it once more."""


@dataclass(slots=True)
class Attempts:
    """The attempts to answer one request, and what a later one takes over from the first."""

    number: int = 0
    pause: float | None = None
    """Seconds after which the server is to repeat the request; None for one that is answered."""
    budget: WaitBudget | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    """The attributes in `KEPT_ATTRIBUTES`, with their values."""
    uuids: Uuids = field(default_factory=Uuids)
    waiting_since: float | None = None
    """Since when the request waits for a thread, on the monotonic clock: from its last byte, or from its last
    attempt."""

    def postpone(self, budget: WaitBudget, kept: dict[str, Any]) -> None:
        """Asks the server to repeat the request."""
        self.pause = min(FIRST_PAUSE * 2**self.number, LONGEST_PAUSE) * _random.uniform(0.8, 1.2)
        self.number += 1
        self.budget, self.kept = budget, kept
        self.waiting_since = time.monotonic()

    def resume(self) -> WaitBudget:
        """Begins the next attempt; returns its budget. The time until now counts as a wait for the database, since
        others that wait for it have kept the threads; the first attempt has some of its budget left in any case."""
        waited = 0.0 if self.waiting_since is None else time.monotonic() - self.waiting_since
        if self.budget is None:
            self.budget = bounded_connection.request_budget()
            waited = min(waited, self.budget.left - LEAST_SECONDS)
        self.budget.left -= waited
        self.pause, self.waiting_since = None, None
        self.uuids.use_from_start()
        return self.budget


def repeats_later(error: Exception) -> bool:
    """Whether the server repeats the request that has failed so; then nobody gets the response to this attempt."""
    if not (_may_repeat() and is_interruption(error)):
        return False
    failing = 0.0 if isinstance(error, ReplicaFailed) else services().database.note_failure()
    return _postpone(failing, f"the database: {reason(error)}")


def waits_for_another_request() -> bool:
    """Whether the server repeats the request because another one, of another machine, has its Idempotency-Key."""
    return _may_repeat() and _postpone(0.0, "another one with the same Idempotency-Key")


def _may_repeat() -> bool:
    """Whether the server repeats requests, and this one has committed nothing."""
    return ATTEMPTS_KEY in request.environ and not bounded_connection.current().may_have_committed


def _postpone(failing: float, awaited: str) -> bool:
    """Postpones the request, unless it has waited too long, or the database has been failing for too many seconds."""
    attempts: Attempts = request.environ[ATTEMPTS_KEY]
    budget, limit = bounded_connection.current(), bounded_connection.REQUEST_SECONDS
    if max(failing, limit - budget.left) > limit - LONGEST_PAUSE:
        return False
    if not attempts.number:
        logger.info("a request waits for %s", awaited)
    attempts.postpone(budget, {name: g.get(name) for name in KEPT_ATTRIBUTES})
    metrics.REQUESTS_REPEATED.inc()
    return True


def is_postponed(environ: dict[str, Any]) -> bool:
    """Whether the server repeats the request instead of sending the response to this attempt."""
    attempts: Attempts | None = environ.get(ATTEMPTS_KEY)
    return attempts is not None and attempts.pause is not None
