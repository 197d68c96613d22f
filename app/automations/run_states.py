"""Conditions on the state of runs, and what is written of one that ends.

The states are written into the conditions, not bound: with a parameter in their place neither database would use the
partial indexes of runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, String, and_, literal_column, or_, select, update

from app.automations.definition import Did, Entry
from app.automations.facts import EndReason
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import AutomationPassedStep, AutomationRun


def _state(name: str) -> ColumnElement[str]:
    return literal_column(f"'{name}'", String)


HAS_ENDED: ColumnElement[bool] = AutomationRun.state == _state("ended")
IS_LIVE: ColumnElement[bool] = AutomationRun.state != _state("ended")
IS_WAITING: ColumnElement[bool] = AutomationRun.state == _state("waiting")
IS_HELD: ColumnElement[bool] = and_(AutomationRun.state == _state("held"), IS_LIVE)
"""The second part is always true; by it the index of live runs answers."""


def ended_columns(reason: str, moment: datetime) -> dict[str, Any]:
    """The columns of a run that has ended, but for its place."""
    return {
        "state": "ended",
        "reason": reason,
        "step": None,
        "step_time": None,
        "watched_step": None,
        "watched_event": None,
        "end_time": moment,
    }


def gives_up_place(entry: Entry, reason: str) -> bool:
    """Whether a run that ends gives up the contact's place, by which it is also deleted after the retention. A contact
    that was deleted cannot come again."""
    return entry.again == "when ended" or reason == EndReason.CONTACT_DELETED


# Waits that end by what becomes of a message, in the transaction that writes what became of it: nothing polls
# (docs/automation-runs.md#rules).
#
# Such a transaction holds the lock of the recipient. A worker locks the recipient before it looks whether it happened
# (app/runs/facts.py), so either it sees it, or the wait that it writes is seen here. A run that is locked is passed
# over here: its worker looks at the recipient afterwards.


def end_waits(transaction: Transaction, happened: Mapping[Did, Collection[int]]) -> None:
    """Makes the runs due that wait for this to become of these recipients, whom steps of automations have sent to."""
    passed, run = AutomationPassedStep, AutomationRun
    awaited = [
        and_(run.watched_event == did, in_json(passed.recipient_id, ids)) for did, ids in happened.items() if ids
    ]
    if not awaited:
        return
    waiting = (
        select(run.id)
        .join(passed, and_(passed.run_id == run.id, passed.step_id == run.watched_step))
        .where(IS_LIVE, or_(*awaited))
        .order_by(run.id)
        .with_for_update(of=run, skip_locked=True)
    )
    if ids := transaction.scalars(waiting).all():
        moment = now()
        statement = update(run).where(in_json(run.id, ids), run.due_time > moment).values(due_time=moment)
        transaction.execute(statement, execution_options={"synchronize_session": False})
