"""Reading transactional groups (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Row, cast, func, select
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.db.counters import hour_of
from app.db.models import Group, HourlyCount, TagCount
from app.db.models.groups import RESULT_COUNTERS
from app.ids import existing
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page

COUNTERS = ("sent", *RESULT_COUNTERS)
PROPERTIES = {
    "id": Property(Group.id),
    "type": Property(Group.type),
    "name": Property(Group.name),
    "creation_time": Property(Group.creation_time, as_timestamp),
    "last_sent_time": Property(Group.last_sent_time, as_timestamp),
    **{name: Property(getattr(Group, name)) for name in COUNTERS},
}
FILTERS = {
    "id": Filter("id", FilterType.INTEGER),
    "type": Filter("type", FilterType.ENUM, MESSAGE_TYPES),
    "name": Filter("name", FilterType.STRING),
    "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    "last_sent_time": Filter("last_sent_time", FilterType.TIMESTAMP),
    **{name: Filter(name, FilterType.INTEGER) for name in COUNTERS},
}


def group_path(group_id: int) -> str:
    return f"/v1/transactional-groups/{group_id}"


def _links(row: Row[Any]) -> dict[str, Any]:
    return {"self": {"href": group_path(row.id)}}


GROUPS = Shape(
    resource=Resource(
        name="transactional group",
        collection="transactional-groups",
        filters=FILTERS,
        fields=tuple(PROPERTIES),
    ),
    properties=PROPERTIES,
    keys=(Group.id,),
    links=_links,
    order=(Group.creation_time, Group.id),
)


def require_group(session: Session, account_id: int, group_id: int) -> None:
    """Raises `not_found` unless the account has the group."""
    stored_id = session.execute(select(Group.id).where(Group.account_id == account_id, Group.id == group_id))
    existing(stored_id.one_or_none(), "transactional group", group_id)


def page_groups(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's groups."""
    return read_page(session, GROUPS, query, Group.account_id == account_id)


def get_group(session: Session, account_id: int, group_id: int, query: Query) -> dict[str, Any]:
    """One group. Raises `not_found`."""
    group = read_one(session, GROUPS, query, {Group.account_id: account_id, Group.id: group_id})
    return existing(group, "transactional group", group_id)


# Counts over time: the counters of groups by hour and by day (docs/cli.md#counts-over-time).
#
# Read from rows that are written with the outcomes (`HourlyCount`), so that nothing counts the history.

Counts = Mapping[str, int]
NO_COUNTS: Counts = dict.fromkeys(COUNTERS, 0)


def counts_by_hour(
    session: Session,
    account_id: int | None,
    moment: datetime,
    last: int,
    *,
    group_id: int | None = None,
    tag: str | None = None,
) -> dict[datetime, Counts]:
    """The counts of each of the `last` hours up to that of the moment, of one group, of one tag, or of all groups of
    the account; for None of all accounts, which only operators may see."""
    first = hour_of(moment) - timedelta(hours=last - 1)
    counts = dict(_hours(session, account_id, first, group_id, tag))
    return {hour: counts.get(hour, NO_COUNTS) for hour in (first + timedelta(hours=number) for number in range(last))}


def counts_by_day(
    session: Session,
    account_id: int,
    moment: datetime,
    last: int,
    *,
    zone: ZoneInfo,
    group_id: int | None = None,
    tag: str | None = None,
) -> dict[date, Counts]:
    """The counts of each of the `last` days in a time zone. An hour belongs to the day in which it begins."""
    today = moment.astimezone(zone).date()
    days = [today - timedelta(days=number) for number in reversed(range(last))]
    first = datetime.combine(days[0], time(), zone).astimezone(UTC)
    counts_of_days: dict[date, dict[str, int]] = defaultdict(lambda: dict(NO_COUNTS))
    for hour, counts in _hours(session, account_id, first, group_id, tag):
        day_counts = counts_of_days[hour.astimezone(zone).date()]
        for name, count in counts.items():
            day_counts[name] += count
    return {day: counts_of_days[day] for day in days}


def _hours(
    session: Session, account_id: int | None, first: datetime, group_id: int | None, tag: str | None
) -> Iterable[tuple[datetime, Counts]]:
    """The hours since the first one in which anything was counted."""
    model: Any = HourlyCount if tag is None else TagCount
    sums = [cast(func.sum(getattr(model, name)), BigInteger) for name in COUNTERS]
    statement = select(model.hour, *sums).where(model.hour >= first)
    if account_id is not None:
        statement = statement.where(model.account_id == account_id)
    if group_id is not None:
        statement = statement.where(model.group_id == group_id)
    if tag is not None:
        statement = statement.where(model.tag == tag)
    for hour, *counts in session.execute(statement.group_by(model.hour)):
        yield hour, dict(zip(COUNTERS, counts, strict=True))
