"""`flask status`: the work in progress of the whole installation, and what needs attention."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from app.cli.base import Command, echo, json_option, print_row
from app.cli.overview import print_findings, read_overview
from app.clock import now
from app.http.context import services
from app.maintenance.status import status
from app.sends.queue_begin import known_begin


@click.command("status", cls=Command)
@click.option("--check", is_flag=True, help="Exit with 1 if something needs attention.")
@json_option
@with_appcontext
@click.pass_context
def command(ctx: click.Context, check: bool, as_json: bool) -> None:
    """Show what needs attention, how many messages are due, in flight or uncertain, how many events wait, and for how
    long, over all accounts."""
    parts = services()
    begin = known_begin(parts.redis)
    with parts.database.read() as session:
        figures = status(session, parts.settings, now(), begin)
        found = [] if as_json and not check else read_overview(parts, session)[1]
    if not as_json:
        print_findings(found)
        echo("")
    print_row(figures, as_json)
    ctx.exit(1 if check and found else 0)
