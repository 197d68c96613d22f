"""What a drain has still to write: attempt results, released rows, leases. In one transaction, unless one result cannot
be written: it must not hold up the others, nor stop the sender for ever.

Only an unavailable database is waited for. Anything else is a fault of one row, or of ours: the row is found by
bisecting and written as deferred by an internal fault, and the log names it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from datetime import datetime

from app.db.database import Database
from app.db.outage import is_unavailable
from app.sends.delivery.claim import postpone, release_claims, renew_leases
from app.sends.outcomes.attempt_result import AttemptResult, internal_fault
from app.sends.outcomes.observability import report_transitions
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes

logger = logging.getLogger(__name__)


class PendingOutcomes:
    """The part of a drain's memory that belongs into the database."""

    def __init__(self, database: Database, worker: str, rules: RetryRules) -> None:
        self._database = database
        self._worker = worker
        self._rules = rules
        self.results: list[AttemptResult] = []
        self.released: list[int] = []
        self.postponed: dict[int, datetime] = {}
        self.since = 0.0
        """When the oldest of the results came, by the monotonic clock."""

    def __bool__(self) -> bool:
        return bool(self.results or self.released or self.postponed)

    @property
    def ids(self) -> list[int]:
        """The recipients that it is about."""
        return [*self.released, *self.postponed, *(result.recipient_id for result in self.results)]

    def add(self, results: Sequence[AttemptResult]) -> None:
        if results and not self.results:
            self.since = time.monotonic()
        self.results += results

    def write(self, renewed: Collection[int]) -> None:
        """Writes all of it, and renews the leases of `renewed`. What fails is kept.

        Raises `SQLAlchemyError` when the database is unavailable, and any failure that has nothing to do with results.
        """
        try:
            with self._database.write() as transaction:
                transitions = write_outcomes(transaction, self._worker, self.results, self._rules)
                release_claims(transaction, self._worker, self.released)
                postpone(transaction, self._worker, self.postponed)
                if renewed:
                    renew_leases(transaction, self._worker, renewed)
        except Exception as error:
            if is_unavailable(error) or not self.results:
                raise
            write_bisecting(self._database, self._worker, self.results, self._rules)
            self.results = []
            self.write(renewed)
            return
        self.results, self.released, self.postponed = [], [], {}
        report_transitions(transitions)


def write_bisecting(database: Database, worker: str, results: Sequence[AttemptResult], rules: RetryRules) -> int:
    """Writes the results of rows that are leased to `worker`, in as many transactions as it takes; returns their
    number.

    Raises when the database is unavailable, and when not even a deferral can be written; what was written by then stays
    written, and may be passed again.
    """
    try:
        return _write(database, worker, results, rules)
    except Exception as error:
        if is_unavailable(error):
            raise
        if len(results) == 1:
            return _defer(database, worker, results[0], rules, error)
    half = len(results) // 2
    return sum(write_bisecting(database, worker, some, rules) for some in (results[:half], results[half:]))


def _defer(database: Database, worker: str, result: AttemptResult, rules: RetryRules, error: Exception) -> int:
    deferred = result._replace(address=None, result=internal_fault(error), skip=None)
    written = _write(database, worker, [deferred], rules)
    logger.error("an attempt result cannot be written", exc_info=error, extra={"recipient_id": result.recipient_id})
    return written


def _write(database: Database, worker: str, results: Sequence[AttemptResult], rules: RetryRules) -> int:
    with database.write() as transaction:
        transitions = write_outcomes(transaction, worker, results, rules)
    report_transitions(transitions)
    return len(transitions)
