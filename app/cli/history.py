"""`flask history`: the months of recipients that are stored, and the end of a month."""

from __future__ import annotations

import click

from app.cli.base import Group, Row, echo, json_option, print_done, print_row, print_rows
from app.http.context import services
from app.maintenance.history import StoredMonths, drop_month, find_month, require_month, stored_months

group = Group("history", help="Recipients of past months, over all accounts.")


def _row(stored: StoredMonths) -> Row:
    ids = stored.ids
    return {"first_month": stored.first, "last_month": stored.last, "recipients": ids.rows, "bytes": ids.size}


@group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show the months that are stored, with about how many recipients and bytes, the oldest first."""
    with services().database.read() as session:
        rows = [_row(stored) for stored in stored_months(session)]
    print_rows(rows, as_json)


@group.command("show")
@click.argument("month", metavar="YYYY-MM")
@json_option
def show(month: str, as_json: bool) -> None:
    """Show a month, with the other months that are stored together with it."""
    with services().database.read() as session:
        row = _row(find_month(session, month))
    print_row(row, as_json)


@group.command("drop-month")
@click.argument("month", metavar="YYYY-MM")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def drop_month_(month: str, yes: bool, as_json: bool) -> None:
    """Drop the recipients of a past month with their timelines; counts of groups stay."""
    with services().database.read() as session:
        stored = require_month(session, month)
    if not yes:
        echo(f"{stored}: about {stored.ids.rows} recipients of all accounts.", err=True)
        click.confirm("Drop them with their timelines?", abort=True, err=True)
    row = _row(drop_month(services(), month))
    print_done(f"dropped {stored}", row, as_json)
