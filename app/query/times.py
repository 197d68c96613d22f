"""Dates, times and zones in query parameters (docs/querying.md#values-by-type).

Every value is parsed as a span that includes its first and last moment: a date is a whole day, a time is the same
moment twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from app.clock import DATE_FORM, HOUR_FORM, OFFSET_FORM, SIXTY_FORM, find_zone
from app.query.conditions import After, Alternative, Before, Between, Equals, FilterCondition, FilterValue
from app.query.parameters import parameter_error, printable

DATE = re.compile(DATE_FORM)
DATETIME = re.compile(rf"{DATE_FORM}T{HOUR_FORM}:{SIXTY_FORM}:{SIXTY_FORM}")
TIMESTAMP = re.compile(rf"{DATETIME.pattern}(?:Z|[+\- ]{OFFSET_FORM})?")

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
"""The least difference between stored instants."""
# If clocks go back over midnight, the end of a day occurs twice: the day ends with the second one.
END_OF_DAY = time.max.replace(fold=1)


def instant_span(text: str, zone: ZoneInfo | None) -> tuple[datetime, datetime]:
    """The span of a timestamp, in UTC.

    A date is the whole day in the zone, a time without an offset is in the zone; the default is UTC. A space is
    accepted as the `+` that a client did not encode. Raises ValueError for any other form, and for a day or time that
    does not exist.
    """
    if DATE.fullmatch(text):
        day = date.fromisoformat(text)
        first = datetime.combine(day, time.min, zone or UTC)
        return _utc(first), _utc(datetime.combine(day, END_OF_DAY, zone or UTC))
    moment = _utc(_moment(text, zone))
    return moment, moment


def end_instant_span(text: str, zone: ZoneInfo | None) -> tuple[datetime, datetime]:
    """The instants that a text at the end of a range stands for: if clocks go back and a local time occurs twice, the
    range includes both (docs/querying.md#filters)."""
    if DATE.fullmatch(text):
        return instant_span(text, zone)
    moment = _moment(text, zone)
    # If clocks go forward, the instant of the second fold is the earlier one.
    last = max(_utc(moment.replace(fold=fold)) for fold in (0, 1))
    return last, last


def _moment(text: str, zone: ZoneInfo | None) -> datetime:
    if not TIMESTAMP.fullmatch(text):
        raise ValueError("not a timestamp")
    moment = datetime.fromisoformat(text.replace(" ", "+"))
    return moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)


def local_span(text: str, _zone: ZoneInfo | None) -> tuple[datetime, datetime]:
    """The naive span of a date or date-time of a list field; such values have no zone."""
    if DATE.fullmatch(text):
        day = date.fromisoformat(text)
        return datetime.combine(day, time.min), datetime.combine(day, time.max)
    if not DATETIME.fullmatch(text):
        raise ValueError("not a date or date-time")
    moment = datetime.fromisoformat(text)
    return moment, moment


def day_span(text: str, _zone: ZoneInfo | None) -> tuple[date, date]:
    """The span of a date of a list field."""
    if not DATE.fullmatch(text):
        raise ValueError("not a date")
    day = date.fromisoformat(text)
    return day, day


def parse_zone(name: str) -> ZoneInfo:
    """The IANA time zone of that name. Raises `invalid_time_zone` (docs/querying.md#time-zone)."""
    # Of a `+` that the client did not encode, as in Etc/GMT+10, a space has become.
    zone = find_zone(name.replace(" ", "+"))
    if zone is None:
        detail = f"_tz: {printable(name)!r} is not the name of an IANA time zone, such as Australia/Brisbane."
        raise parameter_error("invalid_time_zone", "_tz", detail)
    return zone


def _utc(moment: datetime) -> datetime:
    """The instant in UTC; the first or last instant if the offset leads beyond the first or last year."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return FIRST_INSTANT if moment.year == 1 else LAST_INSTANT


# Conditions on instants, beside the place where a page begins.


def beyond(
    conditions: Sequence[FilterCondition], name: str, moment: datetime, *, ascending: bool
) -> tuple[FilterCondition, ...]:
    """The conditions without the bounds on the time of that name which all items beyond the moment meet anyway, in the
    direction of reading: SQLite would read from such a bound on, and not from the moment."""
    reduced = (
        _without_bound(condition, moment, ascending) if condition.filter.name == name else condition
        for condition in conditions
    )
    return tuple(condition for condition in reduced if condition is not None)


def _without_bound(condition: FilterCondition, moment: datetime, ascending: bool) -> FilterCondition | None:
    """The condition, perhaps with its other bound alone; None if all items beyond the moment meet it."""
    if condition.op == "ne" or len(condition.alternatives) != 1:
        return condition
    match condition.alternatives[0]:
        case After(datetime() as low) if ascending and low < moment:
            return None
        case Before(datetime() as high) if not ascending and high > moment:
            return None
        case Between(datetime() as low, datetime() as high) if ascending and low <= moment:
            return None if high == LAST_INSTANT else replace(condition, alternatives=(Before(high + MICROSECOND),))
        case Between(datetime() as low, datetime() as high) if not ascending and high >= moment:
            return None if low == FIRST_INSTANT else replace(condition, alternatives=(After(low - MICROSECOND),))
    return condition


# Conditions on dates and date-times of list fields, as comparisons of the stored ISO text.
#
# The value of a Date Picker is `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`. As text the first sorts before every time of its
# day, so a stored date counts as its midnight: a bound at midnight is written without its time if that puts the stored
# date on the same side.


def on_stored_text(alternative: Alternative) -> list[Alternative]:
    """The alternative as alternatives on the stored text."""
    match alternative:
        case Equals(value):
            return [Equals(text) for text in sorted({_least_text(value), _text(value)})]
        case Between(low, high):
            return [Between(_least_text(low), _text(high))]
        case After(low):
            return [After(_text(low))]
        case Before(high):
            return [Before(_least_text(high))]
    return [alternative]


def _text(value: FilterValue) -> str:
    """The stored form, to the second."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def _least_text(value: FilterValue) -> str:
    """The stored form that sorts first among those of this moment."""
    if isinstance(value, datetime) and value.time() == time.min:
        return value.date().isoformat()
    return _text(value)
