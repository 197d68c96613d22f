"""Creating and changing automations (docs/automation-runs.md#versions)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from app.automations.definition import Branch, Definition, Step, Wait, verb
from app.automations.parse import Draft, is_read, parse_stored
from app.automations.run_states import IS_LIVE, IS_WAITING
from app.automations.tree import step_paths
from app.automations.written import written_definition
from app.clock import now, this_second
from app.db.bulk import insert_rows, take_ids
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.lookup import find_by_name
from app.db.models import Automation, AutomationRun, AutomationStep, AutomationVersion, Group, List
from app.errors import ServiceError
from app.names import check_name
from app.runs.pause import locked_automation
from app.runs.references import Resolution, resolve

# Taking runs along to the newest version of their automation (docs/automation-runs.md#versions).


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
        version_filter = AutomationRun.version_id == version.id, AutomationRun.automation_id == automation.id
        going = update(AutomationRun).where(*version_filter, IS_LIVE)
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


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """What came of a new definition."""

    automation: Automation
    changed: bool
    """Whether there is a new version."""
    moved: int = 0
    """Runs that were taken along to it."""


def create_automation(transaction: Transaction, account_id: int, draft: Draft, max_automations: int) -> Automation:
    """Creates an active automation with its first version.

    Raises `ServiceError` with all errors: `conflict` for a taken name and beyond `max_automations`, and those of
    `resolve`.
    """
    resolution = resolve(transaction, account_id, draft)
    if find_by_name(transaction, Automation, account_id, draft.definition.name):
        resolution.add_conflict("name", _taken_detail(draft.definition.name))
    check_number(transaction, account_id, resolution, max_automations)
    resolved, contact_list = resolution.checked()
    moment = this_second()
    automation = Automation(
        account_id=account_id,
        name=resolved.name,
        kind=resolved.kind,
        list_id=contact_list.id,
        action=resolved.action,
        state="active",
        version=1,
        creation_time=moment,
        last_modified_time=moment,
    )
    transaction.add(automation)
    transaction.flush()
    _add_version(transaction, automation, resolved)
    _add_steps(transaction, automation, resolved)
    # Also where it is true already: somebody may be deleting the last automation of the list. As clients see it the
    # list has not changed, so its time stays.
    listens = update(List).where(List.id == contact_list.id).values(has_automations=True)
    transaction.execute(listens, execution_options={"synchronize_session": False})
    return automation


def _taken_detail(name: str) -> str:
    return f"the account already has an automation {name!r}"


def check_number(session: Session, account_id: int, resolution: Resolution, max_automations: int) -> None:
    """Collects the error of an automation too many."""
    account_filter = Automation.account_id == account_id, Automation.state != "deleted"
    count = session.scalars(select(func.count()).select_from(Automation).where(*account_filter)).one()
    if count >= max_automations:
        resolution.add_conflict("name", f"the account can have at most {max_automations} automations")


def update_automation(
    transaction: Transaction, automation: Automation, draft: Draft, *, move: bool = False
) -> DefinitionChange:
    """Adds a version if the definition differs from the newest one. With `move`, runs on earlier versions go on in the
    newest where it still has their step.

    Raises `ServiceError` with all errors: those of `check_version` and of `resolve`.
    """
    # Contacts may enter meanwhile: the rows of their runs refer to this one.
    is_automation = Automation.account_id == automation.account_id, Automation.id == automation.id
    locked = select(Automation).where(*is_automation).with_for_update(key_share=True)
    transaction.scalars(locked.execution_options(populate_existing=True)).one()
    resolution = resolve(transaction, automation.account_id, draft)
    check_version(transaction, automation, resolution)
    resolved, _ = resolution.checked()
    changed = newest_version(transaction, automation).definition != written_definition(resolved)
    if changed:
        _add_steps(transaction, automation, resolved)
        automation.version += 1
        automation.action, automation.last_modified_time = resolved.action, this_second()
        transaction.flush()
        _add_version(transaction, automation, resolved)
    moved = move_runs(transaction, automation, newest_version(transaction, automation), resolved) if move else 0
    return DefinitionChange(automation, changed, moved)


def rename_automation(transaction: Transaction, account_id: int, automation_id: int, name: str) -> Automation:
    """Gives the automation another name, by a new version: versions do not change.

    Raises `ServiceError`: `not_found`, `conflict` for a taken name or a deleted automation, and what `check_name` does.
    """
    automation = locked_automation(transaction, account_id, automation_id)
    if automation.name == check_name(name):
        return automation
    if find_by_name(transaction, Automation, account_id, name):
        raise ServiceError("conflict", field="name", detail=_taken_detail(name))
    definition = parse_stored(newest_version(transaction, automation).definition)
    automation.name = name
    automation.version, automation.last_modified_time = automation.version + 1, this_second()
    transaction.flush()
    _add_version(transaction, automation, replace(definition, name=name))
    return automation


def apply_automation(
    transaction: Transaction, account_id: int, draft: Draft, max_automations: int
) -> tuple[Automation, bool, bool]:
    """The automation of that name with that definition, whether it was created, and whether it has a new version."""
    automation = find_by_name(transaction, Automation, account_id, draft.definition.name)
    if automation is None:
        return create_automation(transaction, account_id, draft, max_automations), True, False
    return automation, False, update_automation(transaction, automation, draft).changed


def check_definition(session: Session, account_id: int, draft: Draft, max_automations: int) -> Definition:
    """The definition as `apply_automation` would store it. Raises the same `ServiceError`."""
    resolution = resolve(session, account_id, draft)
    automation = find_by_name(session, Automation, account_id, draft.definition.name)
    if automation is None:
        check_number(session, account_id, resolution, max_automations)
    else:
        check_version(session, automation, resolution)
    return resolution.checked()[0]


def check_version(session: Session, automation: Automation, resolution: Resolution) -> None:
    """Collects what a new version cannot change: the kind, the list, and what a step of some name does, since a report
    under one step id is about one kind of step."""
    definition, contact_list = resolution.definition, resolution.contact_list
    changes = {
        "kind": definition.kind != automation.kind,
        "list": contact_list is not None and contact_list.id != automation.list_id,
    }
    for name, changed in changes.items():
        if changed:
            detail = "cannot change: create an automation with another name and delete this one"
            resolution.add_conflict(name, detail)
    step_kinds, paths = _step_kinds(session, automation), step_paths(definition)
    for name, step in definition.by_name.items():
        if is_read(step) and step_kinds.get(name, verb(step)) != verb(step):
            detail = f"the step {name!r} was of the kind {step_kinds[name]} in an earlier version; use another name"
            resolution.add_conflict(f"{paths[name]}.name" if name in paths else None, detail)


def _step_kinds(session: Session, automation: Automation) -> dict[str, str]:
    """What the steps of all versions do, by their names."""
    automation_filter = (
        AutomationStep.account_id == automation.account_id,
        AutomationStep.automation_id == automation.id,
    )
    return {row.name: row.kind for row in session.scalars(select(AutomationStep).where(*automation_filter))}


def newest_version(session: Session, automation: Automation) -> AutomationVersion:
    """The version that contacts enter."""
    automation_filter = (
        AutomationVersion.account_id == automation.account_id,
        AutomationVersion.automation_id == automation.id,
    )
    is_newest = AutomationVersion.number == automation.version
    return session.scalars(select(AutomationVersion).where(*automation_filter, is_newest)).one()


def _add_version(transaction: Transaction, automation: Automation, definition: Definition) -> None:
    version = AutomationVersion(
        account_id=automation.account_id,
        automation_id=automation.id,
        number=automation.version,
        definition=written_definition(definition),
        creation_time=this_second(),
    )
    transaction.add(version)
    transaction.flush()


def _add_steps(transaction: Transaction, automation: Automation, definition: Definition) -> None:
    """Adds the steps that no version had before."""
    step_kinds = _step_kinds(transaction, automation)
    new = [step for name, step in definition.by_name.items() if name not in step_kinds]
    ids = take_ids(transaction, Group, len(new))
    rows = [{"id": step_id, "name": step.name, "kind": verb(step)} for step_id, step in zip(ids, new, strict=True)]
    shared = {"account_id": automation.account_id, "automation_id": automation.id}
    insert_rows(transaction, AutomationStep, rows, shared)
