"""`flask automations`: pausing and resuming, and the runs of contacts."""

from __future__ import annotations

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.cli.base import (
    Group,
    Row,
    WrongValue,
    account_option,
    echo,
    json_option,
    limit_option,
    print_json,
    print_row,
    print_rows,
)
from app.db.lookup import find_by_name_or_id
from app.db.models import Automation, AutomationRun
from app.http.context import services
from app.ids import shown_id
from app.infrastructure.queueing import AUTOMATIONS
from app.runs.pause import RESUMPTIONS, Resumption, cancel, pause, resume
from app.runs.read import RUN_STATES, passed_steps

commands = Group("automations")
"""They belong to `flask automations` (app/cli/automations.py)."""

SHOWN = ("id", "contact_id", "state", "reason", "step", "trigger_time", "due_time", "end_time")


def find_automation(session: Session, account: str | None, automation: str) -> Automation:
    """The automation of that name or id."""
    return find_by_name_or_id(session, Automation, find_account(session, account).id, automation, "automation")


@commands.command("pause")
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


@commands.command("resume")
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


@commands.command("runs")
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
commands.add_command(run_group)


@run_group.command("show")
@click.argument("run_id", metavar="ID", type=int)
@account_option
@json_option
def show(run_id: int, account: str | None, as_json: bool) -> None:
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
