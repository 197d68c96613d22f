"""`flask automations`: automations, their counts, and the triggers that have fired."""

from __future__ import annotations

from pathlib import Path

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.automations.definition import Send, Step, trigger_names
from app.automations.drawing import draw
from app.automations.parse import parse_stored
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    accounts_option,
    echo,
    json_option,
    limit_option,
    print_done,
    print_json,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.cli.holds import yes_option
from app.cli.simulate import definition_in, file_argument, paths_shown, simulate_command
from app.db.lookup import find_by_name, find_by_name_or_id
from app.db.models import Automation, AutomationRun, List, TriggerFiring
from app.http.context import services
from app.ids import shown_id
from app.infrastructure.redis_client import AUTOMATIONS
from app.maintenance.findings import counted
from app.runs.define import count_staying, create_automation, newest_version, rename_automation, update_automation
from app.runs.delete import delete_automation
from app.runs.pause import RESUMPTIONS, Resumption, cancel, pause, resume
from app.runs.read import RUN_STATES, StepCounts, count_states, count_steps, passed_steps, steps_of
from app.runs.references import resolve

group = Group("automations", help="Automations: what contacts set off when they are created or updated.")
group.add_command(simulate_command)

# `flask automations`: pausing and resuming, and the runs of contacts.


SHOWN = ("id", "contact_id", "state", "reason", "step", "trigger_time", "due_time", "end_time")


def find_automation(session: Session, account: str | None, automation: str) -> Automation:
    """The automation of that name or id."""
    return find_by_name_or_id(session, Automation, find_account(session, account).id, automation, "automation")


@group.command("pause")
@click.argument("automation")
@account_option
@json_option
def pause_(automation: str, account: str | None, as_json: bool) -> None:
    """Pause an automation: contacts still enter, and what falls due is held."""
    with services().database.write() as transaction:
        found = find_automation(transaction, account, automation)
        changed = pause(transaction, found.account_id, found.id)
        row = _state(found, changed)
    print_row(row, as_json)


@group.command("resume")
@click.argument("automation")
@click.option(
    "--held",
    "how",
    type=click.Choice(RESUMPTIONS),
    default="send",
    show_default=True,
    help="What becomes of the steps that fell due in the pause: carried out now, skipped, or shifted with all that was "
    "to come by the length of the pause.",
)
@account_option
@json_option
def resume_(automation: str, how: Resumption, account: str | None, as_json: bool) -> None:
    """Resume an automation that was paused."""
    with services().database.write() as transaction:
        found = find_automation(transaction, account, automation)
        changed = resume(transaction, found.account_id, found.id, how)
        row = _state(found, changed)
        transaction.after_commit(lambda: services().wake_ups.wake(AUTOMATIONS))
    print_row(row, as_json)


def _state(automation: Automation, changed: bool) -> Row:
    return {"id": automation.id, "name": automation.name, "state": automation.state, "changed": changed}


@group.command("runs")
@click.argument("automation")
@click.option("--state", type=click.Choice(RUN_STATES), help="Only runs in this state.")
@click.option("--contact", "contact_id", type=int, metavar="ID", help="Only runs of this contact.")
@limit_option
@account_option
@json_option
def runs(
    automation: str, state: str | None, contact_id: int | None, *, limit: int, account: str | None, as_json: bool
) -> None:
    """Show the runs of an automation, the last to enter first."""
    with services().database.read() as session:
        found = find_automation(session, account, automation)
        of_automation = AutomationRun.account_id == found.account_id, AutomationRun.automation_id == found.id
        statement = select(AutomationRun).where(*of_automation)
        if state:
            statement = statement.where(AutomationRun.state == state)
        if contact_id is not None:
            statement = statement.where(AutomationRun.contact_id == contact_id)
        newest = statement.order_by(AutomationRun.trigger_time.desc(), AutomationRun.id.desc()).limit(limit)
        rows = [_run(run) for run in session.scalars(newest)]
    print_rows(rows, as_json)


def _run(run: AutomationRun) -> Row:
    row = {name: getattr(run, name) for name in SHOWN}
    return {**row, "due_time": None} if run.state == "ended" else row


run_group = Group("run", help="One contact on its way through an automation.")
group.add_command(run_group)


@run_group.command("show")
@click.argument("run_id", metavar="ID", type=int)
@account_option
@json_option
def show_run(run_id: int, account: str | None, as_json: bool) -> None:
    """Show a run with the steps that it has passed."""
    with services().database.read() as session:
        run = _find_run(session, find_account(session, account).id, run_id)
        row = {**_run(run), "automation_id": run.automation_id, "list_id": shown_id(run.list_id)}
        passed = [_passed(step) for step in passed_steps(session, run.account_id, run.id)]
    if as_json:
        print_json({**row, "passed": passed})
        return
    print_row(row, as_json=False)
    echo("")
    print_rows(passed, as_json=False)


@run_group.command("cancel")
@click.argument("run_id", metavar="ID", type=int)
@account_option
@json_option
def cancel_(run_id: int, account: str | None, as_json: bool) -> None:
    """End a run: its contact is sent nothing more by it."""
    with services().database.write() as transaction:
        run = _find_run(transaction, find_account(transaction, account).id, run_id)
        changed = cancel(transaction, run.account_id, run.id)
        transaction.expire(run)
        row = {**_run(run), "changed": changed}
    print_row(row, as_json)


def _find_run(session: Session, account_id: int, run_id: int) -> AutomationRun:
    statement = select(AutomationRun).where(AutomationRun.account_id == account_id, AutomationRun.id == run_id)
    run = session.scalars(statement).first()
    if run is None:
        raise WrongValue(f"the account has no run {run_id}")
    return run


def _passed(step: Row) -> Row:
    return {name: step[name] for name in ("time", "name", "kind", "result", "detail", "uuid")}


def _row(session: Session, automation: Automation) -> Row:
    return {
        "id": automation.id,
        "name": automation.name,
        "kind": automation.kind,
        "list": session.scalars(select(List.name).where(List.id == automation.list_id)).first(),
        "trigger": trigger_names("created" if automation.action == "created" else "updated")[
            "standard" if automation.kind == "standard" else "advanced"
        ],
        "state": automation.state,
        "version": automation.version,
    }


def _rows(session: Session, account_id: int) -> list[Row]:
    states = count_states(session, account_id)
    statement = select(Automation).where(Automation.account_id == account_id, Automation.state != "deleted")
    return [
        {**_row(session, one), **{state: states[one.id][state] for state in ("waiting", "held")}}
        for one in session.scalars(statement.order_by(Automation.id))
    ]


@group.command("list")
@accounts_option
@json_option
def list_(account: str | None, as_json: bool) -> None:
    """Show the automations of an account, or of all, with the number of their runs in each state."""
    with services().database.read() as session:
        rows = rows_of_accounts(session, account, lambda one: _rows(session, one))
    print_rows(rows, as_json)


@group.command("show")
@click.argument("automation")
@account_option
@json_option
def show(automation: str, account: str | None, as_json: bool) -> None:
    """Show an automation as a tree of its steps, each with what came of it."""
    with services().database.read() as session:
        found = find_automation(session, account, automation)
        row, counts = _row(session, found), count_steps(session, found.account_id, found.id)
        stored = newest_version(session, found).definition
        steps = steps_of(session, found.account_id, found.id)
    if as_json:
        counted = [{**step, **_counted(counts.get(step["name"]))} for step in steps]
        print_json({**row, "definition": stored, "steps": counted})
        return
    print_row(row, as_json=False)
    definition = parse_stored(stored)
    for line in draw(definition, lambda step: _note(step, counts.get(step.name))):
        echo(line)


def _counted(counts: StepCounts | None) -> Row:
    found = counts or StepCounts()
    return {"here": found.here, **found.results, **{name: count for name, count in found.reported.items() if count}}


def _note(step: Step, counts: StepCounts | None) -> str:
    found = counts or StepCounts()
    parts = [f"here {found.here}", *(f"{result} {count}" for result, count in sorted(found.results.items()))]
    if isinstance(step, Send):
        parts += [f"{name} {count}" for name, count in found.reported.items() if count and name != "sent"]
    return ", ".join(parts)


@group.command("create")
@file_argument
@account_option
@json_option
def create(file: Path, account: str | None, as_json: bool) -> None:
    """Create an automation from a file; it is active at once."""
    draft = definition_in(file)
    with paths_shown(), services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        made = create_automation(transaction, account_id, draft, services().settings.max_automations)
        row = _row(transaction, made)
    print_row(row, as_json)


@group.command("update")
@file_argument
@click.option("--move", is_flag=True, help="Take along the runs on earlier versions whose step still exists.")
@account_option
@json_option
def update(file: Path, move: bool, account: str | None, as_json: bool) -> None:
    """Give the automation that a file names a new version, unless it is what the newest says."""
    draft = definition_in(file)
    with paths_shown(), services().database.write() as transaction:
        account_id = find_account(transaction, account).id
        found = find_by_name(transaction, Automation, account_id, draft.definition.name)
        if found is None:
            resolve(transaction, account_id, draft).checked()
            raise WrongValue(f"the account has no automation {draft.definition.name!r}; create it first")
        change = update_automation(transaction, found, draft, move=move)
        row = {
            **_row(transaction, found),
            "changed": change.changed,
            "moved_runs": change.moved,
            "runs_on_earlier_versions": count_staying(transaction, newest_version(transaction, found)),
        }
    print_row(row, as_json)


@group.command("rename")
@click.argument("automation")
@click.argument("name")
@account_option
@json_option
def rename(automation: str, name: str, account: str | None, as_json: bool) -> None:
    """Give an automation another name, and with it a new version."""
    with services().database.write() as transaction:
        found = find_automation(transaction, account, automation)
        row = _row(transaction, rename_automation(transaction, found.account_id, found.id, name))
    print_row(row, as_json)


@group.command("delete")
@click.argument("automation")
@yes_option
@account_option
@json_option
def delete(automation: str, *, yes: bool, account: str | None, as_json: bool) -> None:
    """Delete an automation: its runs end. Reports of what it has sent are kept."""
    with services().database.read() as session:
        found = find_automation(session, account, automation)
        name, runs = found.name, count_states(session, found.account_id)[found.id].total()
    if not yes:
        click.confirm(f"Delete the automation {name}? That ends {counted(runs, 'run')}.", abort=True, err=True)
    with services().database.write() as transaction:
        deleted = delete_automation(transaction, found.account_id, found.id)
        transaction.after_commit(lambda: services().wake_ups.wake(AUTOMATIONS))
        row = {"id": deleted.id, "name": deleted.name, "deleted": True, "runs": runs}
    line = f"deleted automation {name} with {counted(runs, 'run')}; it is kept as {deleted.name}, for its reports"
    print_done(line, row, as_json)


@group.command("stats")
@click.argument("automation")
@account_option
@json_option
def stats(automation: str, account: str | None, as_json: bool) -> None:
    """Show the counts of each step: the runs at it, and the report of what it has sent."""
    with services().database.read() as session:
        found = find_automation(session, account, automation)
        counts = count_steps(session, found.account_id, found.id)
        steps = steps_of(session, found.account_id, found.id)
    rows = []
    for step in steps:
        of_step = counts.get(step["name"], StepCounts())
        passed = sum(of_step.results.values()) - of_step.results["skipped"]
        rows.append(
            {**step, "here": of_step.here, "passed": passed, "skipped": of_step.results["skipped"], **of_step.reported}
        )
    print_rows(rows, as_json)


def _firing(firing: TriggerFiring) -> Row:
    triggers = trigger_names("created" if firing.action == "created" else "updated")
    return {
        "time": firing.time,
        "list_id": shown_id(firing.list_id),
        "contact_id": firing.contact_id,
        "standard_trigger": triggers["standard"],
        "advanced_trigger": triggers["advanced"],
    }


@group.command("firings")
@limit_option
@accounts_option
@json_option
def firings(limit: int, account: str | None, as_json: bool) -> None:
    """Show the latest firings of triggers, with their name in each kind of automation."""
    latest = select(TriggerFiring).order_by(TriggerFiring.id.desc()).limit(limit)
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: map(_firing, session.scalars(latest.where(TriggerFiring.account_id == one)))
        )
    print_rows(rows, as_json)
