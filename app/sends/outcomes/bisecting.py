"""Writing results, one of which may be impossible to write.

Only an unavailable database is waited for. Any other error is the fault of one row, or of ours: the row is found by
bisecting and written as deferred by an internal fault, and the log names it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from app.db.database import Database
from app.db.outage import is_unavailable
from app.sends.outcomes.attempt_result import AttemptResult, internal_fault
from app.sends.outcomes.observability import report_transitions
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes

logger = logging.getLogger(__name__)


def write_bisecting(database: Database, worker: str, results: Sequence[AttemptResult], rules: RetryRules) -> int:
    """Writes the results of rows that are leased to `worker`, in as many transactions as it takes; returns their
    number.

    Raises when the database is unavailable, and when not even a deferral can be written; results written by then stay
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
