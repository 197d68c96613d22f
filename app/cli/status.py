"""`flask status`: the work in progress of the whole installation, and what needs attention."""

from __future__ import annotations

import time

import click
from flask.cli import with_appcontext

from app.cli.base import Command, Row, Unavailable, echo, json_option, print_json, print_row
from app.clock import now
from app.db.schema import FITS, misfit, schema_of
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.infrastructure.metrics import BACKUP_TIME, noted_time
from app.maintenance.findings import COMMANDS, Finding, are_complete
from app.maintenance.overview import Overview, read_overview
from app.maintenance.status import status
from app.sends.outcomes.relay_refusals import shown_refusals
from app.sends.queue_begin import known_begin

# What `flask status` and `flask top` print of the overview.


def print_overview(overview: Overview) -> None:
    """A line for each finding, with its section of the page Alerts and a command that shows more, and for each note."""
    if not overview.found and not overview.notes:
        echo("all is well")
    for one in overview.found:
        echo(f"! {one.words} ({_what_to_do(one)})")
    for note in overview.notes:
        echo(f"- {note}")


def _what_to_do(finding: Finding) -> str:
    command = COMMANDS.get(finding.alert)
    return finding.alert if command is None else f"{finding.alert}: `{COMMAND_LINE} {command}`"


@click.command("status", cls=Command)
@click.option("--check", is_flag=True, help="Exit with 1 if something needs attention.")
@json_option
@with_appcontext
@click.pass_context
def command(ctx: click.Context, check: bool, as_json: bool) -> None:
    """Show what needs attention, how many messages are due, in flight or uncertain, how many events wait, and for how
    long, over all accounts."""
    if as_json:
        print_json({**_figures(), "refusals": _refusals()})
        ctx.exit(1 if check and read_overview(services()).found else 0)
    overview = read_overview(services())
    print_overview(overview)
    if not are_complete(overview.figures):
        ctx.exit(1)
    echo("")
    print_row(_figures(), as_json=False)
    ctx.exit(1 if check and overview.found else 0)


def _refusals() -> list[Row]:
    """The relays that refuse everything of an account, with what to do, for programs."""
    with services().database.read() as session:
        return [
            {
                **{name: getattr(one, name) for name in ("account", "transport", "reply", "bounced")},
                **{name: getattr(one, name) for name in ("first_time", "noticed_time", "ended_time")},
                "words": one.words(),
            }
            for one in shown_refusals(session, None)
        ]


def _figures() -> Row:
    """Raises `SQLAlchemyError`, and `Unavailable` for a schema whose tables may be others."""
    parts = services()
    begin = known_begin(parts.redis)
    with parts.database.read() as session:
        schema = schema_of(session.connection())
        if schema.state not in FITS:
            raise Unavailable(misfit(schema))
        backup = noted_time(parts.settings, BACKUP_TIME, "done")
        age = None if backup is None else max(0.0, round(time.time() - backup, 1))
        return {**status(session, parts.settings, now(), begin), "backup_age_seconds": age}
