"""Counts over time: the counters of groups by hour and by day (docs/cli.md#counts-over-time).

Read from rows that are written with the outcomes (`HourlyCount`), so that nothing counts the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, cast, func, select
from sqlalchemy.orm import Session

from app.db.counters import hour_of
from app.db.models import HourlyCount
from app.groups.read import COUNTERS

Counts = Mapping[str, int]
NOTHING: Counts = dict.fromkeys(COUNTERS, 0)


def counts_by_hour(
    session: Session, account_id: int | None, moment: datetime, last: int, *, group_id: int | None = None
) -> dict[datetime, Counts]:
    """The counts of each of the `last` hours up to that of the moment, of one group or of all of the account; for
    None of all accounts, which only operators may see."""
    first = hour_of(moment) - timedelta(hours=last - 1)
    found = dict(_hours(session, account_id, first, group_id))
    return {hour: found.get(hour, NOTHING) for hour in (first + timedelta(hours=number) for number in range(last))}


def counts_by_day(
    session: Session, account_id: int, moment: datetime, last: int, *, zone: ZoneInfo, group_id: int | None = None
) -> dict[date, Counts]:
    """The same by day, in a time zone. An hour belongs to the day in which it begins."""
    today = moment.astimezone(zone).date()
    days = [today - timedelta(days=number) for number in reversed(range(last))]
    first = datetime.combine(days[0], time(), zone).astimezone(UTC)
    found: dict[date, dict[str, int]] = defaultdict(lambda: dict(NOTHING))
    for hour, counts in _hours(session, account_id, first, group_id):
        of_day = found[hour.astimezone(zone).date()]
        for name, count in counts.items():
            of_day[name] += count
    return {day: found[day] for day in days}


def _hours(
    session: Session, account_id: int | None, first: datetime, group_id: int | None
) -> Iterable[tuple[datetime, Counts]]:
    """The hours since the first one in which anything was counted."""
    sums = [cast(func.sum(getattr(HourlyCount, name)), BigInteger) for name in COUNTERS]
    statement = select(HourlyCount.hour, *sums).where(HourlyCount.hour >= first)
    if account_id is not None:
        statement = statement.where(HourlyCount.account_id == account_id)
    if group_id is not None:
        statement = statement.where(HourlyCount.group_id == group_id)
    for hour, *counts in session.execute(statement.group_by(HourlyCount.hour)):
        yield hour, dict(zip(COUNTERS, counts, strict=True))
