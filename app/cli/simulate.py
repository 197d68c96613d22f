"""`flask automations simulate`: what an automation would do with a contact (docs/automations.md#simulating)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click
from flask.cli import with_appcontext

from app.accounts.find import find_account
from app.automations.definition import Definition
from app.automations.drawing import describe
from app.automations.parse import Draft, read_definition
from app.automations.simulate import SimulatedStep, Simulation, outcome_branches, simulate
from app.automations.walk import local_moment
from app.cli.base import Command, Row, WrongValue, account_option, echo, json_option, print_json, print_rows
from app.cli.find_contacts import find_contact
from app.clock import now, timestamp, zone_of_account
from app.errors import ServiceError
from app.http.context import services
from app.runs.facts import load_contact_facts
from app.runs.references import resolve
from app.seed.errors import SeedError
from app.seed.read import read_file

# Files with the definition of an automation, and the errors of what they say.

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@contextmanager
def paths_shown() -> Iterator[None]:
    """Begins each error of a definition with its path."""
    try:
        yield
    except ServiceError as error:
        lines = (f"{one.field}: {one.detail}" if one.field else one.developer_message for one in error.errors)
        raise WrongValue("\n       ".join(lines)) from None


def definition_in(file: Path) -> Draft:
    """The definition in a file of YAML or JSON; what is wrong with it is shown with what its account does not have."""
    try:
        with paths_shown():
            return read_definition(read_file(file, {}))
    except SeedError as error:
        raise WrongValue(f"{file}: {error}") from None


@click.command("simulate", cls=Command)
@file_argument
@click.option("--contact", "wanted", metavar="ID|EMAIL|MOBILE", required=True, help="A contact of the list.")
@click.option("--at", metavar="TIME", help="When the trigger fires, in the account's zone by default; now by default.")
@click.option(
    "--then", "happening", metavar="STEP", multiple=True, help="A branch whose message has that fate at once."
)
@account_option
@json_option
@with_appcontext
def simulate_command(
    *, file: Path, wanted: str, at: str | None, happening: tuple[str, ...], account: str | None, as_json: bool
) -> None:
    """Show what the automation in a file would do with a contact, and when. Nothing is written or sent."""
    draft = definition_in(file)
    with paths_shown(), services().database.read() as session:
        found = find_account(session, account)
        resolved, contact_list = resolve(session, found.id, draft).checked()
        _check_branches(resolved, happening)
        zone = zone_of_account(found.time_zone)
        contact = load_contact_facts(session, found, find_contact(session, contact_list, wanted).id)
        start = _moment(at, zone) if at else now()
        simulated = simulate(resolved, contact, zone or UTC, start, happening)
    if as_json:
        print_json(_result(simulated))
    elif not simulated.entered:
        echo("does not enter: the contact does not meet the condition")
    else:
        print_rows([{**_row(step), "time": timestamp(step.time, zone)} for step in simulated.steps], as_json=False)
        echo(_end(simulated, zone))


def _check_branches(definition: Definition, happening: Collection[str]) -> None:
    known = outcome_branches(definition)
    for name in happening:
        if name not in known:
            raise WrongValue(
                f"{name!r} is not a branch that asks what became of a message; those are {', '.join(known) or 'none'}"
            )


def _moment(text: str, zone: ZoneInfo | None) -> datetime:
    """Local times that are left out or come twice are read as `local_moment` reads them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongValue(f"--at must be a time such as 2026-12-24T18:00:00, not {text!r}") from None
    return moment if moment.tzinfo else local_moment(moment.date(), moment.time(), zone or UTC)


def _row(step: SimulatedStep) -> Row:
    assumed = f"assumed: {step.assumption}" if step.assumption else None
    return {
        "time": step.time,
        "step": step.step.name,
        "does": describe(step.step),
        "result": step.result.value,
        "detail": step.detail or assumed,
    }


def _result(simulated: Simulation) -> Row:
    steps = [_row(step) for step in simulated.steps]
    return {
        "entered": simulated.entered,
        "steps": steps,
        "end_time": simulated.end_time,
        "end_reason": simulated.end_reason,
    }


def _end(simulated: Simulation, zone: ZoneInfo | None) -> str:
    ended = timestamp(simulated.end_time, zone) if simulated.end_time else ""
    return f"ends {ended}: {simulated.end_reason}"
