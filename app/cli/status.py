"""`flask status`: the work in progress of the whole installation."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from app.cli.base import Command, json_option, print_row
from app.clock import now
from app.http.context import services
from app.maintenance.status import status
from app.sends.queue_begin import known_begin


@click.command("status", cls=Command)
@json_option
@with_appcontext
def command(as_json: bool) -> None:
    """Show how many messages are due, in flight or uncertain, how many events wait, and for how long, over all
    accounts."""
    begin = known_begin(services().redis)
    with services().database.read() as session:
        print_row(status(session, services().settings, now(), begin), as_json)
