"""What a drain still has to write: attempt results, released rows, leases.

All of it is written in one transaction, unless one result cannot be written: then the results are written by bisecting,
so that it neither delays the others nor stops the sender permanently.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime

from app.db.database import Database
from app.db.outage import is_unavailable
from app.infrastructure.tracing import span
from app.sends.delivery.claim import postpone, release_claims, renew_leases
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.bisecting import write_bisecting
from app.sends.outcomes.observability import report_transitions
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes


class PendingOutcomes:
    """The results and changes of a drain that are not yet in the database."""

    def __init__(self, database: Database, worker: str, rules: RetryRules) -> None:
        self._database = database
        self._worker = worker
        self._rules = rules
        self.results: list[AttemptResult] = []
        self.released: list[int] = []
        self.postponed: dict[int, datetime] = {}
        self.since = 0.0
        """When the oldest result was received, on the monotonic clock."""

    def __bool__(self) -> bool:
        return bool(self.results or self.released or self.postponed)

    @property
    def ids(self) -> list[int]:
        """The recipients concerned."""
        return [*self.released, *self.postponed, *(result.recipient_id for result in self.results)]

    def add(self, results: Sequence[AttemptResult]) -> None:
        if results and not self.results:
            self.since = time.monotonic()
        self.results += results

    def write(self, renewed: Collection[int]) -> None:
        """Writes all of it, and renews the leases of `renewed`. Whatever fails is kept.

        Raises `SQLAlchemyError` when the database is unavailable, and any failure that has nothing to do with results.
        """
        try:
            with span("settle", tms__results=len(self.results)), self._database.write() as transaction:
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
