"""Letting go of the runs that were held in a pause which has ended, in chunks."""

from __future__ import annotations

from functools import partial

from sqlalchemy import case, exists, select, update
from sqlalchemy.orm import Session

from app.automations.run_states import IS_HELD
from app.clock import now
from app.db.database import Transaction
from app.db.models import Automation, AutomationRun
from app.runs.reasons import RESTORED
from app.services import Services

RELEASES = ("send", "skip")
"""What `Automation.release` says where held runs are let go."""
CHUNK = 1000
"""Runs of one transaction."""


def has_held_to_release(session: Session) -> bool:
    """Whether any automation has been resumed whose held runs have not all been let go, or deleted whose runs have not
    all been ended."""
    return bool(session.scalar(select(exists().where(Automation.release.is_not(None)))))


def release_held(services: Services) -> bool:
    """Lets go of all such runs; returns whether there may have been some."""
    with services.database.read() as session:
        resumed = list(session.scalars(select(Automation.id).where(Automation.release.in_(RELEASES))))
    for automation_id in resumed:
        while not services.stopping.is_set():
            if not services.database.transact(partial(_release, automation_id=automation_id)):
                break
    return bool(resumed)


def _release(transaction: Transaction, automation_id: int) -> bool:
    """Lets go of a chunk; returns whether there may be more. What the pause has shifted keeps its due time, to which
    the pause is added when it is found. The rest is due from now on: so none of it is late by the length of the
    pause."""
    statement = select(Automation).where(Automation.id == automation_id, Automation.release.in_(RELEASES))
    automation = transaction.scalars(statement.with_for_update(key_share=True)).first()
    if automation is None:
        return False
    held = (
        select(AutomationRun.id)
        .where(AutomationRun.automation_id == automation_id, IS_HELD, AutomationRun.reason.is_distinct_from(RESTORED))
        .order_by(AutomationRun.step, AutomationRun.id)
        .limit(CHUNK)
        .with_for_update()
    )
    ids = transaction.scalars(held).all()
    is_shifted = AutomationRun.shifted_seconds < automation.shifted_seconds
    values = {
        **{"state": "waiting", "reason": None, "skips_next": automation.release == "skip"},
        "due_time": case((is_shifted, AutomationRun.due_time), else_=now()),
        "shifted_seconds": case((is_shifted, AutomationRun.shifted_seconds), else_=automation.shifted_seconds),
    }
    transaction.execute(
        update(AutomationRun).where(AutomationRun.id.in_(ids)).values(values),
        execution_options={"synchronize_session": False},
    )
    if len(ids) < CHUNK:
        automation.release = None
        transaction.flush()
        return False
    return True
