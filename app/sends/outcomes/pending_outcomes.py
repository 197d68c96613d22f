"""What a drain has still to write: verdicts, rows that were not tried, leases. In one transaction, unless one verdict
cannot be written: it must not hold up the others, nor stop the sender for ever.

Only a database that is unavailable is waited for. Anything else is a fault of one row, or of ours: the row is found by
halves and settled as deferred by an internal fault, and the log tells of it.
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
        self.verdicts: list[AttemptResult] = []
        self.returned: list[int] = []
        self.postponed: dict[int, datetime] = {}
        self.since = 0.0
        """When the oldest of the verdicts came, by the monotonic clock."""

    def __bool__(self) -> bool:
        return bool(self.verdicts or self.returned or self.postponed)

    @property
    def ids(self) -> list[int]:
        """The recipients that it is about."""
        return [*self.returned, *self.postponed, *(verdict.recipient_id for verdict in self.verdicts)]

    def add(self, verdicts: Sequence[AttemptResult]) -> None:
        """More verdicts."""
        if verdicts and not self.verdicts:
            self.since = time.monotonic()
        self.verdicts += verdicts

    def write(self, renewed: Collection[int]) -> None:
        """Writes all of it, and moves the leases of `renewed`. What fails is kept.

        Raises `SQLAlchemyError` when the database is unavailable, and any failure that has nothing to do with verdicts.
        """
        try:
            with self._database.write() as transaction:
                made = write_outcomes(transaction, self._worker, self.verdicts, self._rules)
                release_claims(transaction, self._worker, self.returned)
                postpone(transaction, self._worker, self.postponed)
                if renewed:
                    renew_leases(transaction, self._worker, renewed)
        except Exception as error:
            if is_unavailable(error) or not self.verdicts:
                raise
            write_bisecting(self._database, self._worker, self.verdicts, self._rules)
            self.verdicts = []
            self.write(renewed)
            return
        self.verdicts, self.returned, self.postponed = [], [], {}
        report_transitions(made)


def write_bisecting(database: Database, worker: str, verdicts: Sequence[AttemptResult], rules: RetryRules) -> int:
    """Settles the verdicts on rows that `worker` still holds, in as many transactions as it takes; counts them.

    Raises when the database is unavailable, and when not even a deferral can be written; what was settled by then is
    so, and may be given again.
    """
    try:
        return _settle(database, worker, verdicts, rules)
    except Exception as error:
        if is_unavailable(error):
            raise
        if len(verdicts) == 1:
            return _defer(database, worker, verdicts[0], rules, error)
    half = len(verdicts) // 2
    return sum(write_bisecting(database, worker, some, rules) for some in (verdicts[:half], verdicts[half:]))


def _defer(database: Database, worker: str, verdict: AttemptResult, rules: RetryRules, error: Exception) -> int:
    deferred = verdict._replace(address=None, result=internal_fault(error), skip=None)
    settled = _settle(database, worker, [deferred], rules)
    logger.error("a verdict cannot be written", exc_info=error, extra={"recipient_id": verdict.recipient_id})
    return settled


def _settle(database: Database, worker: str, verdicts: Sequence[AttemptResult], rules: RetryRules) -> int:
    with database.write() as transaction:
        made = write_outcomes(transaction, worker, verdicts, rules)
    report_transitions(made)
    return len(made)
