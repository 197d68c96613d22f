"""Writing what the runs of a chunk did: the steps they have passed, with their counts, and where they are now; two
statements and that of the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Update, update

from app.automations.definition import Branch, Outcome
from app.automations.facts import SkipReason
from app.automations.run_states import ended_columns, gives_up_place
from app.automations.versions import Version
from app.automations.walk import Ended, Waiting, Walk
from app.db.bulk import BulkUpdate, RowValues, insert_rows
from app.db.counters import STEP_COUNTS, count
from app.db.database import Transaction
from app.db.models import AutomationPassedStep, AutomationRun, table_of
from app.runs.due import DueRun
from app.runs.facts import LoadedRun

WRITTEN = (
    *("state", "reason", "step", "step_time", "due_time", "attempts", "skips_next", "shifted_seconds"),
    *("watched_step", "watched_event", "end_time", "entry_key"),
)
"""Columns of a run that change when it is due."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a run did at a moment."""

    loaded: LoadedRun
    walk: Walk
    recipients: Mapping[int, int]
    """By run id, whom messages of the chunk were written for."""


def write_moves(transaction: Transaction, moves: Sequence[Move], moment: datetime) -> None:
    """Writes the steps that the runs have passed. The unique index refuses a step that was passed before, and with it
    the whole transaction."""
    rows = [row for move in moves for row in _passed_rows(move)]
    insert_rows(transaction, AutomationPassedStep, rows, {"time": moment})
    counts = Counter((row["account_id"], row["step_id"], row["result"]) for row in rows)
    for (account_id, step_id, result), passed in counts.items():
        count(transaction, STEP_COUNTS, account_id, (step_id, result), passed=passed)
    update_runs(transaction, [_moved(move, moment) for move in moves])


def update_runs(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the columns of runs that are locked; the rows are those of `unmoved`, with what has changed."""
    _UPDATE.run(transaction, sorted(rows, key=lambda row: row["row"]))


def unmoved(run: DueRun, **changed: Any) -> dict[str, Any]:
    """The columns of a run that stays where it is, but for what has changed."""
    return {
        "row": run.id,
        "state": "waiting",
        "reason": None,
        "step": run.step,
        "step_time": run.step_time,
        "due_time": run.due_time,
        "attempts": 0,
        "skips_next": run.skips_next,
        "shifted_seconds": run.automation_shifted_seconds,
        "watched_step": run.watched_step,
        "watched_event": run.watched_event,
        "end_time": None,
        "entry_key": run.entry_key,
        **changed,
    }


def _update_statement(row: RowValues) -> Update:
    runs = table_of(AutomationRun)
    return update(runs).where(runs.c.id == row["row"]).values({name: row[name] for name in WRITTEN})


_UPDATE = BulkUpdate(
    {"row": AutomationRun.id.type, **{name: table_of(AutomationRun).c[name].type for name in WRITTEN}},
    _update_statement,
)


def _passed_rows(move: Move) -> Iterator[dict[str, Any]]:
    run, walk = move.loaded.run, move.walk
    for passed in walk.passed:
        sent = walk.effect is not None and passed.step == walk.effect.name
        yield {
            "account_id": run.account_id,
            "run_id": run.id,
            "step_id": move.loaded.version.step_ids[passed.step],
            "result": passed.result.value,
            "detail": passed.detail,
            "recipient_id": move.recipients.get(run.id) if sent else None,
        }


def _moved(move: Move, moment: datetime) -> dict[str, Any]:
    run, version, following = move.loaded.run, move.loaded.version, move.walk.next
    if isinstance(following, Ended):
        return ended(run, version, following.reason, moment)
    at_once = following.step_time is None
    skipped = any(passed.detail == SkipReason.PAUSED for passed in move.walk.passed)
    return unmoved(
        run,
        step=following.step,
        step_time=following.step_time,
        due_time=following.due_time,
        skips_next=run.skips_next and at_once and not skipped,
        **_watched(version, following),
    )


def ended(run: DueRun, version: Version, reason: str, moment: datetime) -> dict[str, Any]:
    """The columns of a run that ends."""
    gives_up = gives_up_place(version.definition.entry, reason)
    return unmoved(run, **ended_columns(reason, moment), entry_key=run.id if gives_up else run.entry_key)


def _watched(version: Version, waiting: Waiting) -> dict[str, Any]:
    step = version.definition.step(waiting.step)
    if waiting.watched is None or not (isinstance(step, Branch) and isinstance(step.on, Outcome)):
        return {"watched_step": None, "watched_event": None}
    return {"watched_step": version.step_ids[waiting.watched], "watched_event": step.on.did}
