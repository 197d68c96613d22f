"""Waits that end by what becomes of a message, in the transaction that writes what became of it: nothing polls
(docs/automations.md#rules).

Such a transaction holds the lock of the recipient. A worker locks the recipient before it looks whether it happened
(app/runs/fates.py), so either it sees it, or the wait that it writes is seen here. A run that is locked is passed over
here: its worker looks at the recipient afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import and_, or_, select, update

from app.automations.definition import Did
from app.automations.run_states import IS_LIVE
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import AutomationPassedStep, AutomationRun


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
