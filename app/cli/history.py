"""`flask history`: the months of recipients that are stored, and the end of a month."""

from __future__ import annotations

import click
from sqlalchemy.orm import Session

from app.cli.base import CommandResult, Group, NamedItem, Row, echo
from app.maintenance.history import StoredMonths, drop_month, find_month, require_month, stored_months
from app.services import Services

group = Group("history", help="The stored history of all accounts, by month.")


def _row(stored: StoredMonths) -> Row:
    ids = stored.ids
    return {"first_month": stored.first, "last_month": stored.last, "recipients": ids.rows, "bytes": ids.size}


month_argument = click.argument("named", metavar="YYYY-MM")


@group.reads("list", "installation")
def list_(session: Session) -> list[Row]:
    """Show the stored months, oldest first, each with its approximate number of recipients and bytes."""
    return [_row(stored) for stored in stored_months(session)]


@group.reads("show", NamedItem(month_argument, find_month, "installation"))
def show(_session: Session, stored: StoredMonths) -> Row:
    """Show a month and the months that are stored together with it."""
    return _row(stored)


@group.runs("drop-month", "installation")
@click.argument("month", metavar="YYYY-MM")
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop_month_(parts: Services, month: str, yes: bool) -> CommandResult:
    """Delete the recipients of a past month and their timelines. The counts of groups stay."""
    with parts.database.read() as session:
        stored = require_month(session, month)
    if not yes:
        echo(f"{stored}: about {stored.ids.rows} recipients of all accounts.", err=True)
        click.confirm("Delete them and their timelines?", abort=True, err=True)
    return CommandResult(f"dropped {stored}", _row(drop_month(parts, month)))
