"""Pausing and resuming automations, and cancelling runs, by hand (docs/automation-runs.md#pausing).

Pausing changes one row: runs that fall due meanwhile are held when they are found (`advance`). Resuming changes one
row, too, whatever the number of runs: what is held is let go in chunks (app/runs/releases.py), and what is shifted is
shifted when it falls due. Only a pause that begins before all that is to be skipped has been let go marks it first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, Update, and_, exists, false, or_, select, update
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.automations.run_states import IS_HELD, ended_columns, gives_up_place
from app.automations.versions import load_versions
from app.clock import now, this_second
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.models import Automation, AutomationRun, table_of
from app.errors import ServiceError
from app.ids import describe

# Why a run ended or stands still for another cause than the rules (`EndReason` has those). Pure.

PAUSE_REASON = "paused"
"""Held: it fell due while its automation was paused."""
RESTORE_REASON = "restored"
"""Held: it came with a backup that was restored."""
DROP_REASON = "dropped"
"""Ended: an operator dropped it while it was held after a restore."""
CANCEL_REASON = "cancelled"
"""Ended: somebody cancelled the run."""
DELETION_REASON = "automation deleted"
FAILURE_REASON = "failed"
"""Put off, and ended at last: a fault of ours keeps it from going on."""


Resumption = Literal["send", "skip", "shift"]
RESUMPTIONS: tuple[Resumption, ...] = ("send", "skip", "shift")
"""What becomes of the steps that fell due in the pause: they are carried out now, or skipped; or all that was to come
comes later by as long as the pause was."""


def pause(transaction: Transaction, account_id: int, automation_id: int) -> bool:
    """Pauses the automation; returns whether it was active. Raises `not_found`, and `conflict` for a deleted one."""
    automation = locked_automation(transaction, account_id, automation_id)
    if automation.state == "paused":
        return False
    if automation.release == "skip":
        # That was decided of runs which are still to be let go; the next resumption decides of what falls due later.
        _skip_due(transaction, automation)
    automation.state, automation.paused_time, automation.release = "paused", now(), None
    automation.last_modified_time = this_second()
    return True


def _skip_due(transaction: Transaction, automation: Automation) -> None:
    """Has those of the held runs skip their next step that are due with all that pauses have added, as when they are
    let go."""
    run, is_held, moment = AutomationRun, _is_held_by_pause(automation.id), now()
    shifts = transaction.scalars(select(run.shifted_seconds).where(*is_held).distinct()).all()
    is_due = (
        and_(run.shifted_seconds == seconds, run.due_time <= moment - _still_added(automation, seconds))
        for seconds in shifts
    )
    held = update(run).where(*is_held, or_(false(), *is_due)).values(skips_next=True)
    transaction.execute(held, execution_options={"synchronize_session": False})


def resume(transaction: Transaction, account_id: int, automation_id: int, how: Resumption = "send") -> bool:
    """Resumes the automation; returns whether it was paused. Raises `not_found`, and `conflict` for a deleted one."""
    automation = locked_automation(transaction, account_id, automation_id)
    if automation.state == "active":
        return False
    if how == "shift" and automation.paused_time is not None:
        pause_length = now() - automation.paused_time
        # Rounded down, so that what a contact has entered meanwhile is due at once.
        automation.shifted_seconds += int(pause_length.total_seconds())
    automation.state, automation.paused_time = "active", None
    automation.release = "skip" if how == "skip" else "send"
    automation.last_modified_time = this_second()
    return True


def cancel(transaction: Transaction, account_id: int, run_id: int) -> bool:
    """Ends the run; returns whether it had not ended before. Recorded in the audit log. Raises `not_found`."""
    run_query = select(AutomationRun).where(AutomationRun.account_id == account_id, AutomationRun.id == run_id)
    run = transaction.scalars(run_query.with_for_update()).first()
    if run is None:
        raise ServiceError("not_found", detail=f"there is no {describe('run', run_id)}")
    if run.state == "ended":
        return False
    version = load_versions(transaction, [run.version_id])[run.version_id]
    gives_up = gives_up_place(version.definition.entry, CANCEL_REASON)
    values = {**ended_columns(CANCEL_REASON, now()), "entry_key": run_id if gives_up else run.entry_key}
    statement = update(AutomationRun).where(AutomationRun.id == run_id).values(values)
    transaction.execute(statement, execution_options={"synchronize_session": False})
    record(transaction, Act("run.cancelled", account_id, run_id))
    return True


def locked_automation(transaction: Transaction, account_id: int, automation_id: int) -> Automation:
    """The automation, once the chunks that have read its state are committed. Raises `not_found`, and `conflict` for a
    deleted one."""
    statement = select(Automation).where(Automation.account_id == account_id, Automation.id == automation_id)
    automation = transaction.scalars(statement.with_for_update(key_share=True)).first()
    if automation is None:
        raise ServiceError("not_found", detail=f"there is no {describe('automation', automation_id)}")
    if automation.state == "deleted":
        raise ServiceError("conflict", detail="the automation was deleted")
    return automation


# Letting go of the runs that were held in a pause which has ended, in chunks.

RELEASE_POLICIES = ("send", "skip")
"""What `Automation.release` says where held runs are let go."""
HeldRun = Row[int, datetime, bool, int]
"""Id, due time, whether it skips its next step, and shifted seconds of a run."""


def has_held_to_release(session: Session) -> bool:
    """Whether any automation has been resumed whose held runs have not all been let go, or deleted whose runs have not
    all been ended."""
    return bool(session.scalar(select(exists().where(Automation.release.is_not(None)))))


def release_chunk(transaction: Transaction, automation_id: int, size: int) -> bool:
    """Lets go of the next runs of a resumed automation; returns whether there may be more. An automation that others
    have locked is left to them."""
    statement = select(Automation).where(Automation.id == automation_id, Automation.release.in_(RELEASE_POLICIES))
    automation = transaction.scalars(statement.with_for_update(key_share=True, skip_locked=True)).first()
    if automation is None:
        return False
    run = AutomationRun
    held = (
        select(run.id, run.due_time, run.skips_next, run.shifted_seconds)
        .where(*_is_held_by_pause(automation_id))
        .order_by(run.step, run.id)
        .limit(size)
        .with_for_update()
    )
    runs, moment = transaction.execute(held).all(), now()
    _LET_GO.run(transaction, [_let_go_columns(automation, row, moment) for row in runs])
    if len(runs) < size:
        automation.release = None
        transaction.flush()
        return False
    return True


def _is_held_by_pause(automation_id: int) -> tuple[ColumnElement[bool], ...]:
    """The condition on runs that a pause of the automation holds."""
    run = AutomationRun
    return run.automation_id == automation_id, IS_HELD, run.reason.is_distinct_from(RESTORE_REASON)


def _let_go_columns(automation: Automation, run: HeldRun, moment: datetime) -> dict[str, Any]:
    """The columns of a run that is let go. One that is due, with all that pauses have added, is due from now on: so it
    is not late by the length of the pause. Any other did not fall due in it. What pauses have added is added when the
    run is found."""
    added = _still_added(automation, run.shifted_seconds)
    is_due = run.due_time + added <= moment
    return {
        "row": run.id,
        "due_time": moment - added if is_due else run.due_time,
        "skips_next": run.skips_next or (is_due and automation.release == "skip"),
        "shifted_seconds": min(run.shifted_seconds, automation.shifted_seconds),
    }


def _still_added(automation: Automation, shifted_seconds: int) -> timedelta:
    """By how much pauses delay a run beyond its due time, which has so many of their seconds already."""
    return timedelta(seconds=max(0, automation.shifted_seconds - shifted_seconds))


def _let_go(row: RowValues) -> Update:
    runs = table_of(AutomationRun)
    values = {"state": "waiting", "reason": None, **{name: row[name] for name in LET_GO_COLUMNS}}
    return update(runs).where(runs.c.id == row["row"]).values(values)


LET_GO_COLUMNS = ("due_time", "skips_next", "shifted_seconds")
_LET_GO = BulkUpdate(
    {"row": AutomationRun.id.type, **{name: table_of(AutomationRun).c[name].type for name in LET_GO_COLUMNS}}, _let_go
)
