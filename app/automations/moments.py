"""When a wait ends: clocks and dates in the account's zone, and how late a moment may be
(docs/automations.md#time). Pure.

Moments that are computed here are in UTC, so that they are subtracted as elapsed time: Python subtracts two datetimes
of one zone as local times, without the hour that a change to daylight saving adds or takes.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from app.automations.definition import WEEKDAYS, Duration, UntilDate, UntilTime
from app.clock import DATE_FORM

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
LATEST = DAY
"""A moment that is past by less is kept; one that is past by as much or more is missed."""
FIRST_DAY, LAST_DAY = date(2, 1, 1), date(9998, 12, 31)
"""Days that have a moment in every zone, with room for a change of zone on either side."""
NUMBER_OF_DAYS = LAST_DAY.toordinal()

_DAY = re.compile(DATE_FORM)


def is_missed(target: datetime, moment: datetime) -> bool:
    """Whether the target is so long past at the moment that what was to happen then must not happen any more."""
    return moment - target >= LATEST


def whole_second(moment: datetime) -> datetime:
    """The second of the moment, as clients see it: outcomes are known to the second."""
    return moment.replace(microsecond=0)


def end_of_time(start: datetime, within: Duration) -> datetime:
    """The last second of a time counted from `start`: what happens in it counts, a second later does not."""
    return whole_second(start) + within.delta


def local_moment(day: date, at: time, zone: tzinfo) -> datetime:
    """When a clock in the zone shows `at` on that day.

    A time that the zone leaves out is the first moment after the gap; of one that it has twice, the first counts.
    """
    wall = datetime.combine(min(max(day, FIRST_DAY), LAST_DAY), at)
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    return _end_of_gap(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), moment, zone)


def _end_of_gap(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first second with the later offset, between a moment before the change of the zone and one after it."""
    offset = after.astimezone(zone).utcoffset()
    seconds = 0, int((after - before).total_seconds())
    while seconds[1] - seconds[0] > 1:
        middle = sum(seconds) // 2
        has_changed = (before + middle * SECOND).astimezone(zone).utcoffset() == offset
        seconds = (seconds[0], middle) if has_changed else (middle, seconds[1])
    return before + seconds[1] * SECOND


def next_time(until: UntilTime, start: datetime, zone: tzinfo) -> datetime:
    """The first moment at `start` or later when a clock in the zone shows the time, on one of the weekdays."""
    weekdays = {WEEKDAYS.index(name) for name in until.on}
    # From the day before: a time that it leaves out at midnight falls on this day.
    first = start.astimezone(zone).date() - DAY
    days = (first + number * DAY for number in range(10))
    moments = (local_moment(day, until.at, zone) for day in days if day.weekday() in weekdays)
    return next(moment for moment in moments if moment >= start)


def day_in(text: str, zone: tzinfo) -> date | None:
    """The day that a value names: a date, or a datetime, which is in `zone` where it has no offset. None for any other
    text and for days that do not exist."""
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text) if _DAY.match(text) else None
        return None if moment is None else (moment.astimezone(zone) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return None


def moment_of_date(until: UntilDate, day: date, start: datetime, zone: tzinfo) -> datetime:
    """The moment that a date field names.

    Where a past date counts in the next year, it is that of the first year in which the moment is not missed at
    `start`.
    """
    if until.past != "next year":
        return _shifted(until, day, zone)
    earliest = start.astimezone(zone).year - 2 - abs(until.offset) // 365
    years = range(max(day.year, earliest), LAST_DAY.year + 1)
    moments = (_shifted(until, in_year(day, year), zone) for year in years)
    return next((moment for moment in moments if not is_missed(moment, start)), _shifted(until, LAST_DAY, zone))


def _shifted(until: UntilDate, day: date, zone: tzinfo) -> datetime:
    ordinal = min(max(day.toordinal() + until.offset, 1), NUMBER_OF_DAYS)
    return local_moment(date.fromordinal(ordinal), until.at, zone)


def in_year(day: date, year: int) -> date:
    """The same day of another year; 29 February is the 28th in a year without it."""
    is_leap_day = (day.month, day.day) == (2, 29)
    return date(year, 3, 1) - DAY if is_leap_day else day.replace(year=year)
