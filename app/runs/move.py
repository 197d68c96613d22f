"""Taking runs along to the newest version of their automation (docs/automations.md#versions)."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, func, select, update

from app.automations.definition import Branch, Definition, Step, Wait
from app.automations.parse import parse_stored
from app.automations.run_states import IS_LIVE, IS_WAITING
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Automation, AutomationRun, AutomationVersion


def move_runs(
    transaction: Transaction, automation: Automation, newest: AutomationVersion, definition: Definition
) -> int:
    """Takes along the runs whose step is still there, and returns how many; two statements for each earlier version
    that has runs.

    A run that waits in a step that has changed is due at once, so that it is judged by the new one.
    """
    moved = 0
    for version in _earlier_versions(transaction, newest):
        old = parse_stored(version.definition).by_name
        kept = [name for name in old if name in definition.by_name]
        changed = [name for name in kept if _asks(old[name]) != _asks(definition.by_name[name])]
        _judge_anew(transaction, automation, version.id, changed)
        of_version = AutomationRun.version_id == version.id, AutomationRun.automation_id == automation.id
        going = update(AutomationRun).where(*of_version, IS_LIVE)
        values = going.where(in_json(AutomationRun.step, kept)).values(version_id=newest.id)
        returned = transaction.connection().execute(values)
        moved += returned.rowcount
    return moved


def _earlier_versions(transaction: Transaction, newest: AutomationVersion) -> list[AutomationVersion]:
    in_use = select(AutomationRun.version_id).where(*_on_earlier_ones(newest)).distinct()
    return list(transaction.scalars(select(AutomationVersion).where(AutomationVersion.id.in_(in_use))))


def _on_earlier_ones(newest: AutomationVersion) -> tuple[ColumnElement[bool], ...]:
    return (
        AutomationRun.automation_id == newest.automation_id,
        IS_LIVE,
        AutomationRun.version_id != newest.id,
    )


def _asks(step: Step) -> object:
    """What a run that is in the step waits for."""
    match step:
        case Wait():
            return step.until
        case Branch():
            return step.on
        case _:
            return None


def _judge_anew(transaction: Transaction, automation: Automation, version_id: int, steps: Collection[str]) -> None:
    waiting = update(AutomationRun).where(
        AutomationRun.version_id == version_id,
        AutomationRun.automation_id == automation.id,
        IS_WAITING,
        in_json(AutomationRun.step, steps),
    )
    values = {"due_time": now(), "shifted_seconds": automation.shifted_seconds}
    if steps:
        transaction.connection().execute(waiting.values(values))


def count_staying(transaction: Transaction, newest: AutomationVersion) -> int:
    """How many runs finish on earlier versions."""
    return transaction.scalars(select(func.count()).select_from(AutomationRun).where(*_on_earlier_ones(newest))).one()
