"""Runs of automations that are held after a restore (docs/restore.md#what-a-restore-holds).

Which of their steps were carried out since the backup was made is not known, so they stand still until an operator
releases or drops them. The state is `held`, as in a pause; the reason tells the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, case, exists, func, or_, select, update
from sqlalchemy.orm import Session

from app.audit.record import Act, record_at_once
from app.automations.run_states import IS_HELD, ended_columns, gives_up_place
from app.automations.versions import load_versions
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Automation, AutomationRun, table_of
from app.db.write_turns import WriteTurns
from app.runs.pause import DROP_REASON, RESTORE_REASON
from app.services import Services

IS_RESTORED = IS_HELD, AutomationRun.reason == RESTORE_REASON
Run = Row[int, int, int]


@dataclass(frozen=True, slots=True)
class HeldRuns:
    """Which of the held runs are meant: those that meet all that is given. Times are those at which a run was due."""

    account_id: int | None = None
    automation_id: int | None = None
    due_before: datetime | None = None
    due_after: datetime | None = None


class HeldRunCount(NamedTuple):
    """The held runs of an automation, and when the first and the last were due."""

    account_id: int
    automation: str
    runs: int
    first_due: datetime
    last_due: datetime


def hold_runs(connection: Connection) -> int:
    """Holds every run that has not ended, in the transaction that restores it; returns how many. One that was to skip
    its next step, because its automation had been resumed so, still does."""
    runs, automations = table_of(AutomationRun).c, table_of(Automation).c
    skipping = exists().where(automations.id == runs.automation_id, automations.release == "skip")
    statement = update(table_of(AutomationRun)).where(runs.state == "held", skipping)
    connection.execute(statement.values(skips_next=True))
    is_free = or_(runs.reason.is_(None), runs.reason != RESTORE_REASON)
    held = update(table_of(AutomationRun)).where(runs.state != "ended", is_free)
    return connection.execute(held.values(state="held", reason=RESTORE_REASON)).rowcount


def count_held_runs(session: Session, selection: HeldRuns) -> list[HeldRunCount]:
    """The held runs that are meant, by automation."""
    times = func.min(AutomationRun.due_time), func.max(AutomationRun.due_time)
    columns = AutomationRun.account_id, Automation.name, func.count(), *times
    counted = select(*columns).join(Automation, Automation.id == AutomationRun.automation_id)
    counted = counted.where(*_conditions(selection)).group_by(AutomationRun.account_id, Automation.id, Automation.name)
    rows = session.execute(counted.order_by(AutomationRun.account_id, Automation.name))
    return [HeldRunCount._make(row) for row in rows]


def release_runs(services: Services, selection: HeldRuns, advance: Callable[[int], None]) -> int:
    """Lets the held runs that are meant go on, each when it is due; returns how many."""
    _record(services, "automation.released", selection)
    return _in_turns(services, selection, _release, advance)


def drop_runs(services: Services, selection: HeldRuns, advance: Callable[[int], None]) -> int:
    """Ends the held runs that are meant; returns how many."""
    _record(services, "automation.dropped", selection)
    return _in_turns(services, selection, _drop, advance)


def _record(services: Services, action: str, selection: HeldRuns) -> None:
    with services.database.read() as session:
        held = sum(row.runs for row in count_held_runs(session, selection))
    if held:
        act = Act(action, selection.account_id, selection.automation_id, counts={"runs": held})
        record_at_once(services.database, act)


def _conditions(selection: HeldRuns) -> list[ColumnElement[bool]]:
    run, conditions = AutomationRun, [*IS_RESTORED]
    if selection.account_id is not None:
        conditions.append(run.account_id == selection.account_id)
    if selection.automation_id is not None:
        conditions.append(run.automation_id == selection.automation_id)
    if selection.due_before is not None:
        conditions.append(run.due_time < selection.due_before)
    if selection.due_after is not None:
        conditions.append(run.due_time >= selection.due_after)
    return conditions


def _in_turns(
    services: Services,
    selection: HeldRuns,
    work: Callable[[Transaction, Sequence[Run]], None],
    advance: Callable[[int], None],
) -> int:
    turns, last, total = WriteTurns(services.database), 0, 0
    while not services.stopping.is_set():
        size = turns.size

        def chunk(transaction: Transaction, after: int = last, size: int = size) -> list[int]:
            run = AutomationRun
            statement = select(run.id, run.automation_id, run.version_id).where(*_conditions(selection), run.id > after)
            rows = transaction.execute(statement.order_by(run.id).limit(size).with_for_update()).all()
            if rows:
                work(transaction, rows)
            return [row.id for row in rows]

        ids = turns.take(size, chunk)
        advance(len(ids))
        total += len(ids)
        if len(ids) < size:
            break
        last = ids[-1]
    return total


def _release(transaction: Transaction, rows: Sequence[Run]) -> None:
    """What was due is due from now on, but for what a pause has shifted."""
    run, moment = AutomationRun, now()
    shift = select(Automation.shifted_seconds).where(Automation.id == run.automation_id).scalar_subquery()
    is_late = run.due_time <= moment
    values = {
        **{"state": "waiting", "reason": None},
        "due_time": case((is_late & (run.shifted_seconds >= shift), moment), else_=run.due_time),
    }
    released = update(run).where(in_json(run.id, [row.id for row in rows])).values(values)
    transaction.execute(released, execution_options={"synchronize_session": False})


def _drop(transaction: Transaction, rows: Sequence[Run]) -> None:
    """A contact whose run is dropped may enter again as after any other end."""
    versions = load_versions(transaction, sorted({row.version_id for row in rows}))
    giving_up = [row.id for row in rows if gives_up_place(versions[row.version_id].definition.entry, DROP_REASON)]
    run, ended = AutomationRun, ended_columns(DROP_REASON, now())
    place = case((in_json(run.id, giving_up), run.id), else_=run.entry_key)
    dropped = update(run).where(in_json(run.id, [row.id for row in rows])).values({**ended, "entry_key": place})
    transaction.execute(dropped, execution_options={"synchronize_session": False})
