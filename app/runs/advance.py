"""Advancing the runs of a chunk as far as they go, in one transaction
(docs/decisions/021-automations-without-leases.md).

Nothing that a run does exists without the step passed and the place to which the run has moved on, and nothing of it
exists twice. The number of statements depends on how many different steps the runs are at, not on that of the runs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.automations.definition import Unsubscribe
from app.automations.run_states import ended_columns, gives_up_place
from app.automations.versions import load_versions
from app.automations.walk import Ended, Walk, refused, walk
from app.clock import now
from app.db.database import Transaction
from app.errors import ServiceError
from app.infrastructure.metrics import AUTOMATION_DELAY, AUTOMATION_ENDS, AUTOMATION_STEPS
from app.runs.due import DueRun, read_runs
from app.runs.effects import carry_out
from app.runs.facts import LoadedRun, load_runs
from app.runs.reasons import AUTOMATION_DELETED, FAILED, PAUSED
from app.runs.write import Move, unmoved, update_runs, write_moves

logger = logging.getLogger(__name__)

FIRST_DELAY = timedelta(seconds=30)
LONGEST_DELAY = timedelta(hours=1)
ATTEMPTS = 12
"""After so many failures in a row, over some six hours, a run ends."""


@dataclass(slots=True)
class Advanced:
    """What became of a chunk."""

    runs: int = 0
    steps: int = 0
    messages: int = 0
    put_aside: list[int] = field(default_factory=list)
    """Runs whose next step unsubscribes, which needs a lock that comes before theirs."""


def advance(transaction: Transaction, ids: Collection[int], *, may_unsubscribe: bool = False) -> Advanced:
    """Advances due runs that this transaction has locked."""
    moment = now()
    runs = read_runs(transaction, ids)
    ready = [run for run in map(_shifted, runs) if run.automation_state == "active" and run.due_time <= moment]
    _leave(transaction, runs, moment)
    loaded = load_runs(transaction, ready, moment) if ready else []
    walks, failed = _walk_all(loaded)
    aside = [one.run.id for one, walked in walks if isinstance(walked.effect, Unsubscribe) and not may_unsubscribe]
    walks = [(one, walked) for one, walked in walks if one.run.id not in set(aside)]
    done = carry_out(transaction, [(one, walked.effect) for one, walked in walks if walked.effect], moment)
    moves = [
        Move(one, _as_done(one, walked, done.refused.get(one.run.id), moment), done.recipients) for one, walked in walks
    ]
    write_moves(transaction, moves, moment)
    put_off(transaction, failed, moment)
    _count(transaction, moves)
    steps = sum(len(move.walk.passed) for move in moves)
    return Advanced(len(runs) - len(aside), steps, len(done.recipients), aside)


def put_off(transaction: Transaction, failed: Sequence[DueRun], moment: datetime) -> None:
    """Delays runs that have failed, longer each time, and ends them at last."""
    rows = []
    for run in failed:
        attempts = run.attempts + 1
        if attempts >= ATTEMPTS:
            rows.append(unmoved(run, **_failed_columns(transaction, run, moment), attempts=attempts))
        else:
            delay = min(FIRST_DELAY * 2 ** min(run.attempts, 20), LONGEST_DELAY)
            rows.append(unmoved(run, attempts=attempts, reason=FAILED, due_time=moment + delay))
    update_runs(transaction, rows)


def _failed_columns(transaction: Transaction, run: DueRun, moment: datetime) -> dict[str, Any]:
    """A run that ends since it has failed too often gives up its place like any other, unless its version cannot be
    read: that may be why it failed."""
    columns = ended_columns(FAILED, moment)
    try:
        version = load_versions(transaction, [run.version_id])[run.version_id]
    except (LookupError, TypeError, ValueError, ServiceError):
        return columns
    return {**columns, "entry_key": run.id} if gives_up_place(version.definition.entry, FAILED) else columns


def _shifted(run: DueRun) -> DueRun:
    """The run with what pauses have added to its due time since that was set. The first wait of one that has not begun
    counts from there, too."""
    added = timedelta(seconds=max(0, run.automation_shifted_seconds - run.shifted_seconds))
    return run._replace(due_time=run.due_time + added, trigger_time=run.trigger_time + added) if added else run


def _leave(transaction: Transaction, runs: Sequence[DueRun], moment: datetime) -> None:
    """Leaves what a pause has shifted, holds what falls due while its automation is paused, and ends what has begun
    while it was being deleted."""
    rows = []
    for run in map(_shifted, runs):
        if run.due_time > moment:
            rows.append(unmoved(run, attempts=run.attempts))
        elif run.automation_state == "deleted":
            rows.append(unmoved(run, **ended_columns(AUTOMATION_DELETED, moment), entry_key=run.id))
        elif run.automation_state != "active":
            # One that entered in the pause keeps what it has missed of it.
            shifted = max(run.shifted_seconds, run.automation_shifted_seconds)
            rows.append(unmoved(run, state="held", reason=PAUSED, attempts=run.attempts, shifted_seconds=shifted))
    update_runs(transaction, rows)


def _walk_all(loaded: Sequence[LoadedRun]) -> tuple[list[tuple[LoadedRun, Walk]], list[DueRun]]:
    """The walks, and the runs that failed."""
    walks, failed = [], []
    for one in loaded:
        try:
            walks.append((one, walk(one.version.definition, one.place, one.facts)))
        except Exception:
            logger.exception("cannot advance a run", extra={"run": one.run.id, "step": one.run.step})
            failed.append(one.run)
    return walks, failed


def _as_done(one: LoadedRun, walked: Walk, reason: str | None, moment: datetime) -> Walk:
    return walked if reason is None else refused(one.version.definition, walked, reason, moment)


def _count(transaction: Transaction, moves: Sequence[Move]) -> None:
    """Counts for the metrics once all is committed."""
    results = Counter(passed.result.value for move in moves for passed in move.walk.passed)
    for result, number in results.items():
        transaction.after_commit(partial(AUTOMATION_STEPS.labels(result).inc, number))
    for move in moves:
        due_time, facts = move.loaded.run.due_time, move.loaded.facts
        transaction.after_commit(partial(AUTOMATION_DELAY.observe, (facts.moment - due_time).total_seconds()))
        if isinstance(move.walk.next, Ended):
            transaction.after_commit(AUTOMATION_ENDS.labels(move.walk.next.reason.value).inc)
