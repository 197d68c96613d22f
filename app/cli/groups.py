"""`flask groups`: transactional groups, the reports of sends."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cli.base import Group as Commands
from app.cli.base import Row, WrongValue, by_name_or_id, limit_option
from app.clock import find_zone, now
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, Group
from app.groups.read import COUNTERS, counts_by_day, counts_by_hour
from app.http.context import services

group = Commands("groups", help="Transactional groups: counts of their recipients and outcomes.")

ROW_COLUMNS = ("id", "type", "name", *COUNTERS, "creation_time", "last_sent_time")


def _row(row: Group) -> Row:
    return {name: getattr(row, name) for name in ROW_COLUMNS}


@group.reads("list", "all accounts")
@limit_option
def list_(session: Session, account: Account, limit: int) -> list[Row]:
    """Show the groups of one account or of all accounts, newest first."""
    statement = select(Group).where(Group.account_id == account.id)
    newest = statement.order_by(Group.creation_time.desc(), Group.id.desc()).limit(limit)
    return [_row(row) for row in session.scalars(newest)]


@group.reads("show", by_name_or_id(Group))
def show(_session: Session, transactional_group: Group) -> Row:
    """Show a group. GROUP is its name or id."""
    return _row(transactional_group)


@group.reads("stats")
@click.argument("group_", metavar="[GROUP]", required=False)
@click.option("--by", type=click.Choice(("hour", "day")), default="hour", show_default=True, help="The unit.")
@click.option("--last", type=click.IntRange(1), help="Number of hours or days up to now. Default: 24 hours or 7 days.")
@click.option("--tag", metavar="TAG", help="The messages of this tag instead of those of a group.")
def stats(
    session: Session, account: Account, group_: str | None, *, by: str, last: int | None, tag: str | None
) -> list[Row]:
    """Show the counts per hour or day of one group, of one tag, or of all groups of an account."""
    if group_ and tag:
        raise WrongValue("--tag: give a group or a tag, not both")
    last = last or (24 if by == "hour" else 7)
    kept, unit = services().settings.retain_logs, timedelta(hours=1) if by == "hour" else timedelta(days=1)
    if kept is not None and last * unit > kept:
        raise WrongValue(f"--last: counts are kept for {kept / timedelta(days=1):g} days (RETAIN_LOGS)")
    group_id = find_by_name_or_id(session, Group, account.id, group_, "group").id if group_ else None
    if by == "hour":
        hours = counts_by_hour(session, account.id, now(), last, group_id=group_id, tag=tag)
        return [{"hour": hour, **counts} for hour, counts in hours.items()]
    zone = find_zone(account.time_zone) or ZoneInfo("UTC")
    days = counts_by_day(session, account.id, now(), last, zone=zone, group_id=group_id, tag=tag)
    return [{"day": day.isoformat(), **counts} for day, counts in days.items()]
