"""`flask automations`: automations, their counts, the triggers that have fired, and what an automation would do with a
contact (docs/automations.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.automations.definition import Definition, Send, Step, trigger_names
from app.automations.drawing import describe, draw
from app.automations.parse import Draft, parse_stored, read_definition
from app.automations.simulate import SimulatedStep, Simulation, outcome_branches, simulate
from app.automations.walk import local_moment
from app.cli.base import (
    CommandResult,
    Group,
    NamedItem,
    Row,
    WrongValue,
    by_name_or_id,
    echo,
    limit_option,
    print_json,
    print_row,
    print_rows,
    row_with_table,
    wake_after,
)
from app.cli.find_contacts import find_contact
from app.cli.holds import yes_option
from app.clock import now, timestamp, zone_of_account
from app.db.database import Transaction
from app.db.lookup import find_by_name
from app.db.models import Account, Automation, AutomationRun, List, TriggerFiring
from app.errors import ServiceError
from app.http.context import services
from app.ids import shown_id
from app.infrastructure.redis_client import AUTOMATIONS
from app.maintenance.words import counted
from app.query.conditions import Equals, FilterCondition, Query
from app.runs.define import count_staying, create_automation, newest_version, rename_automation, update_automation
from app.runs.delete import delete_automation
from app.runs.facts import load_contact_facts
from app.runs.pause import RESUMPTIONS, Resumption, cancel, pause, resume
from app.runs.read import (
    RUN_FILTERS,
    RUN_STATES,
    StepCounts,
    count_states,
    count_steps,
    page_runs,
    passed_steps,
    steps_of,
)
from app.runs.references import resolve
from app.seed.errors import SeedError
from app.seed.read import read_file
from app.services import Services

group = Group("automations", help="Automations: steps that run for a contact after it is created or updated.")
AUTOMATION = by_name_or_id(Automation)

# `flask automations`: pausing and resuming, and the runs of contacts.


ROW_COLUMNS = ("id", "contact_id", "state", "reason", "step", "trigger_time", "due_time", "end_time")


@group.writes("pause", AUTOMATION)
def pause_(transaction: Transaction, automation: Automation) -> Row:
    """Pause an automation. Contacts still enter it, and steps that fall due are held."""
    return _state(automation, pause(transaction, automation.account_id, automation.id))


@group.writes("resume", AUTOMATION)
@click.option(
    "--held",
    "how",
    type=click.Choice(RESUMPTIONS),
    default="send",
    show_default=True,
    help="What to do with steps that fell due during the pause. send: carry them out now. skip: skip them. shift: "
    "delay them and all later steps by the length of the pause.",
)
def resume_(transaction: Transaction, automation: Automation, how: Resumption) -> Row:
    """Resume a paused automation."""
    changed = resume(transaction, automation.account_id, automation.id, how)
    wake_after(transaction, AUTOMATIONS)
    return _state(automation, changed)


def _state(automation: Automation, changed: bool) -> Row:
    return {"id": automation.id, "name": automation.name, "state": automation.state, "changed": changed}


@group.reads("runs", AUTOMATION)
@click.option("--state", type=click.Choice(RUN_STATES), help="Only runs in this state.")
@click.option("--contact", "contact_id", type=int, metavar="ID", help="Only runs of this contact.")
@limit_option
def runs(session: Session, automation: Automation, state: str | None, contact_id: int | None, limit: int) -> list[Row]:
    """Show the runs of an automation, newest first."""
    asked = {"state": state, "contact_id": contact_id}
    conditions = tuple(
        FilterCondition(RUN_FILTERS[name], "eq", (Equals(value),)) for name, value in asked.items() if value is not None
    )
    query = Query(limit=limit, conditions=conditions)
    page = page_runs(session, automation.account_id, automation.id, query, sees_contacts=True)
    return [{name: item[name] for name in ROW_COLUMNS} for item in page.items]


def _run(run: AutomationRun) -> Row:
    row = {name: getattr(run, name) for name in ROW_COLUMNS}
    return {**row, "due_time": None} if run.state == "ended" else row


run_group = Group("run", help="Runs: each takes one contact through an automation.")
group.add_command(run_group)


def _find_run(session: Session, account_id: int, run_id: int) -> AutomationRun:
    statement = select(AutomationRun).where(AutomationRun.account_id == account_id, AutomationRun.id == run_id)
    run = session.scalars(statement).first()
    if run is None:
        raise WrongValue(f"the account has no run {run_id}")
    return run


RUN = NamedItem(click.argument("named", metavar="ID", type=int), _find_run)


@run_group.reads("show", RUN, row_with_table("passed", ""))
def show_run(session: Session, run: AutomationRun) -> Row:
    """Show a run and the steps that it has completed."""
    passed = [_passed_step_row(step) for step in passed_steps(session, run.account_id, run.id)]
    return {**_run(run), "automation_id": run.automation_id, "list_id": shown_id(run.list_id), "passed": passed}


@run_group.writes("cancel", RUN)
def cancel_(transaction: Transaction, run: AutomationRun) -> Row:
    """Cancel a run. Its contact gets no more messages from it."""
    changed = cancel(transaction, run.account_id, run.id)
    transaction.expire(run)
    return {**_run(run), "changed": changed}


def _passed_step_row(step: Row) -> Row:
    return {name: step[name] for name in ("time", "name", "kind", "result", "detail", "uuid")}


def _row(session: Session, automation: Automation) -> Row:
    return {
        "id": automation.id,
        "name": automation.name,
        "kind": automation.kind,
        "list": session.scalars(select(List.name).where(List.id == automation.list_id)).first(),
        "trigger": trigger_names(automation.action)["standard" if automation.kind == "standard" else "advanced"],
        "state": automation.state,
        "version": automation.version,
    }


@group.reads("list", "all accounts")
def list_(session: Session, account: Account) -> list[Row]:
    """Show the automations of one account or of all accounts, with the number of runs in each state."""
    states = count_states(session, account.id)
    statement = select(Automation).where(Automation.account_id == account.id, Automation.state != "deleted")
    return [
        {**_row(session, automation), **{state: states[automation.id][state] for state in ("waiting", "held")}}
        for automation in session.scalars(statement.order_by(Automation.id))
    ]


AutomationReport = tuple[Row, Any, Sequence[Row], Mapping[str, StepCounts]]
"""An automation with its stored definition, its steps and their counts."""


def _print_automation(report: AutomationReport, as_json: bool) -> None:
    row, stored, steps, counts = report
    if as_json:
        counted = [{**step, **_counts_row(counts.get(step["name"]))} for step in steps]
        print_json({**row, "definition": stored, "steps": counted})
        return
    print_row(row, as_json=False)
    for line in draw(parse_stored(stored), lambda step: _note(step, counts.get(step.name))):
        echo(line)


@group.reads("show", AUTOMATION, _print_automation)
def show(session: Session, automation: Automation) -> AutomationReport:
    """Show an automation as a tree of steps, each with its results."""
    row, counts = _row(session, automation), count_steps(session, automation.account_id, automation.id)
    stored = newest_version(session, automation).definition
    return row, stored, steps_of(session, automation.account_id, automation.id), counts


def _counts_row(counts: StepCounts | None) -> Row:
    step_counts = counts or StepCounts()
    return {
        "here": step_counts.here,
        **step_counts.results,
        **{name: count for name, count in step_counts.reported.items() if count},
    }


def _note(step: Step, counts: StepCounts | None) -> str:
    step_counts = counts or StepCounts()
    parts = [
        f"here {step_counts.here}",
        *(f"{result} {count}" for result, count in sorted(step_counts.results.items())),
    ]
    if isinstance(step, Send):
        parts += [f"{name} {count}" for name, count in step_counts.reported.items() if count and name != "sent"]
    return ", ".join(parts)


# Files with the definition of an automation, and the errors of what they say.


@contextmanager
def paths_shown() -> Iterator[None]:
    """Begins each error of a definition with its path."""
    try:
        yield
    except ServiceError as error:
        lines = (
            f"{field_error.field}: {field_error.detail}" if field_error.field else field_error.developer_message
            for field_error in error.errors
        )
        raise WrongValue("\n       ".join(lines)) from None


def definition_in(file: Path) -> Draft:
    """The definition in a file of YAML or JSON; what is wrong with it is shown with what its account does not have."""
    try:
        with paths_shown():
            return read_definition(read_file(file, {}))
    except SeedError as error:
        raise WrongValue(f"{file}: {error}") from None


file_argument = click.argument(
    "draft",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=lambda _context, _parameter, file: definition_in(file),
)


@group.writes("create")
@file_argument
def create(transaction: Transaction, account: Account, draft: Draft) -> Row:
    """Create an automation from a file. It is active at once."""
    with paths_shown():
        made = create_automation(transaction, account.id, draft, services().settings.max_automations)
    return _row(transaction, made)


@group.writes("update")
@file_argument
@click.option(
    "--move", is_flag=True, help="Move runs of earlier versions to the new version if their step still exists."
)
def update(transaction: Transaction, account: Account, draft: Draft, move: bool) -> Row:
    """Create a new version of the automation that a file names. If the newest version equals the file, nothing
    changes."""
    with paths_shown():
        automation = find_by_name(transaction, Automation, account.id, draft.definition.name)
        if automation is None:
            resolve(transaction, account.id, draft).checked()
            raise WrongValue(f"the account has no automation {draft.definition.name!r}; create it first")
        change = update_automation(transaction, automation, draft, move=move)
    return {
        **_row(transaction, automation),
        "changed": change.changed,
        "moved_runs": change.moved,
        "runs_on_earlier_versions": count_staying(transaction, newest_version(transaction, automation)),
    }


@group.writes("rename", AUTOMATION)
@click.argument("name")
def rename(transaction: Transaction, automation: Automation, name: str) -> Row:
    """Rename an automation. This creates a new version."""
    return _row(transaction, rename_automation(transaction, automation.account_id, automation.id, name))


@group.runs("delete", AUTOMATION)
@yes_option
def delete(parts: Services, automation: Automation, yes: bool) -> CommandResult:
    """Delete an automation and end its runs. Reports of its messages are kept."""
    name = automation.name
    with parts.database.read() as session:
        runs = count_states(session, automation.account_id)[automation.id].total()
    if not yes:
        click.confirm(f"Delete the automation {name}? This ends {counted(runs, 'run')}.", abort=True, err=True)
    with parts.database.write() as transaction:
        deleted = delete_automation(transaction, automation.account_id, automation.id)
        wake_after(transaction, AUTOMATIONS)
    line = f"deleted automation {name} with {counted(runs, 'run')}; it is kept as {deleted.name}, for its reports"
    return CommandResult(line, {"id": deleted.id, "name": deleted.name, "deleted": True, "runs": runs})


@group.reads("stats", AUTOMATION)
def stats(session: Session, automation: Automation) -> list[Row]:
    """Show the counts of each step: its runs, and the report of its messages."""
    counts = count_steps(session, automation.account_id, automation.id)
    steps = steps_of(session, automation.account_id, automation.id)
    return [{**step, **_report(counts.get(step["name"], StepCounts()))} for step in steps]


def _report(counts: StepCounts) -> Row:
    skipped = counts.results["skipped"]
    passed = sum(counts.results.values()) - skipped
    return {"here": counts.here, "passed": passed, "skipped": skipped, **counts.reported}


def _firing(firing: TriggerFiring) -> Row:
    triggers = trigger_names(firing.action)
    return {
        "time": firing.time,
        "list_id": shown_id(firing.list_id),
        "contact_id": firing.contact_id,
        "standard_trigger": triggers["standard"],
        "advanced_trigger": triggers["advanced"],
    }


@group.reads("firings", "all accounts")
@limit_option
def firings(session: Session, account: Account, limit: int) -> list[Row]:
    """Show which triggers fired last. Each has its name in standard and in advanced automations."""
    statement = select(TriggerFiring).where(TriggerFiring.account_id == account.id)
    return [_firing(firing) for firing in session.scalars(statement.order_by(TriggerFiring.id.desc()).limit(limit))]


# `flask automations simulate`: what an automation would do with a contact (docs/automations.md#simulating).


def _print_simulation(simulation_and_zone: tuple[Simulation, ZoneInfo | None], as_json: bool) -> None:
    simulated, zone = simulation_and_zone
    if as_json:
        print_json(_result(simulated))
    elif not simulated.entered:
        echo("does not enter: the contact does not meet the condition")
    else:
        rows = [{**_simulated_step_row(step), "time": timestamp(step.time, zone)} for step in simulated.steps]
        print_rows(rows, as_json=False)
        echo(_end(simulated, zone))


@group.reads("simulate", shows=_print_simulation)
@file_argument
@click.option("--contact", "contact_reference", metavar="ID|EMAIL|MOBILE", required=True, help="A contact of the list.")
@click.option(
    "--at",
    metavar="TIME",
    help="When the trigger fires, in the account's time zone unless the time has another. Default: now.",
)
@click.option(
    "--then",
    "happening",
    metavar="STEP",
    multiple=True,
    help="A branch whose event happens as soon as the run reaches it. Repeatable.",
)
def simulate_(
    session: Session,
    account: Account,
    *,
    draft: Draft,
    contact_reference: str,
    at: str | None,
    happening: tuple[str, ...],
) -> tuple[Simulation, ZoneInfo | None]:
    """Show what the automation in a file would do for a contact, and when. Nothing is stored or sent."""
    with paths_shown():
        resolved, contact_list = resolve(session, account.id, draft).checked()
        _check_branches(resolved, happening)
        zone = zone_of_account(account.time_zone)
        contact = load_contact_facts(session, account, find_contact(session, contact_list, contact_reference).id)
        start = _moment(at, zone) if at else now()
        return simulate(resolved, contact, zone or UTC, start, happening), zone


def _check_branches(definition: Definition, happening: Collection[str]) -> None:
    branches = outcome_branches(definition)
    for name in happening:
        if name not in branches:
            listing = ", ".join(branches) or "none"
            raise WrongValue(f"{name!r} is not a branch with a condition on a message; known: {listing}")


def _moment(text: str, zone: ZoneInfo | None) -> datetime:
    """Local times that are left out or come twice are read as `local_moment` reads them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongValue(f"--at must be a time such as 2026-12-24T18:00:00, not {text!r}") from None
    return moment if moment.tzinfo else local_moment(moment.date(), moment.time(), zone or UTC)


def _simulated_step_row(step: SimulatedStep) -> Row:
    assumed = f"assumed: {step.assumption}" if step.assumption else None
    return {
        "time": step.time,
        "step": step.step.name,
        "does": describe(step.step),
        "result": step.result.value,
        "detail": step.detail or assumed,
    }


def _result(simulated: Simulation) -> Row:
    steps = [_simulated_step_row(step) for step in simulated.steps]
    return {
        "entered": simulated.entered,
        "steps": steps,
        "end_time": simulated.end_time,
        "end_reason": simulated.end_reason,
    }


def _end(simulated: Simulation, zone: ZoneInfo | None) -> str:
    ended = timestamp(simulated.end_time, zone) if simulated.end_time else ""
    return f"ends {ended}: {simulated.end_reason}"
