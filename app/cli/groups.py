"""`flask groups`: transactional groups, the reports of sends."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import click
from sqlalchemy import select

from app.accounts.find import find_account
from app.cli.base import Group as Commands
from app.cli.base import (
    Row,
    WrongValue,
    account_option,
    accounts_option,
    json_option,
    limit_option,
    print_row,
    print_rows,
    rows_of_accounts,
)
from app.clock import find_zone, now
from app.db.lookup import find_by_name_or_id
from app.db.models import Group
from app.groups.read import COUNTERS, counts_by_day, counts_by_hour
from app.http.context import services

group = Commands("groups", help="Transactional groups: counts of their recipients and outcomes.")

SHOWN = ("id", "type", "name", *COUNTERS, "creation_time", "last_sent_time")


def _row(row: Group) -> Row:
    return {name: getattr(row, name) for name in SHOWN}


@group.command("list")
@limit_option
@accounts_option
@json_option
def list_(limit: int, account: str | None, as_json: bool) -> None:
    """Show the groups of an account, or of each, the newest first."""
    newest = select(Group).order_by(Group.creation_time.desc(), Group.id.desc()).limit(limit)
    with services().database.read() as session:
        rows = rows_of_accounts(
            session, account, lambda one: map(_row, session.scalars(newest.where(Group.account_id == one)))
        )
    print_rows(rows, as_json)


@group.command("show")
@click.argument("group_", metavar="GROUP")
@account_option
@json_option
def show(group_: str, account: str | None, as_json: bool) -> None:
    """Show a group, named by its name or id."""
    with services().database.read() as session:
        row = _row(find_by_name_or_id(session, Group, find_account(session, account).id, group_, "group"))
    print_row(row, as_json)


@group.command("stats")
@click.argument("group_", metavar="[GROUP]", required=False)
@click.option("--by", type=click.Choice(("hour", "day")), default="hour", show_default=True, help="The unit.")
@click.option(
    "--last", type=click.IntRange(1), help="Number of hours or days up to now; by default 24 hours or 7 days."
)
@account_option
@json_option
def stats(group_: str | None, by: str, last: int | None, account: str | None, as_json: bool) -> None:
    """Show the counts of each hour or day, of one group or of all groups of an account."""
    last = last or (24 if by == "hour" else 7)
    kept, unit = services().settings.retain_logs, timedelta(hours=1) if by == "hour" else timedelta(days=1)
    if kept is not None and last * unit > kept:
        raise WrongValue(f"--last: counts are kept for {kept / timedelta(days=1):g} days (RETAIN_LOGS)")
    with services().database.read() as session:
        found = find_account(session, account)
        group_id = find_by_name_or_id(session, Group, found.id, group_, "group").id if group_ else None
        if by == "hour":
            hours = counts_by_hour(session, found.id, now(), last, group_id=group_id)
            rows: list[Row] = [{"hour": hour, **counts} for hour, counts in hours.items()]
        else:
            zone = find_zone(found.time_zone) or ZoneInfo("UTC")
            days = counts_by_day(session, found.id, now(), last, zone=zone, group_id=group_id)
            rows = [{"day": day.isoformat(), **counts} for day, counts in days.items()]
    print_rows(rows, as_json)
