"""Time zones: days that are not 24 hours long, hours that happen twice, and the ends of the calendar."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterCondition, IsNull
from app.query.fields import Filter, FilterType
from app.query.times import FIRST_INSTANT, LAST_INSTANT, beyond
from tests.support.cases import each

from .sample import alternatives

MICROSECOND = timedelta(microseconds=1)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def day(first: str, next_first: str) -> Between:
    """A day, from its first instant to the last one before the next day."""
    return Between(instant(first), instant(next_first) - MICROSECOND)


CASES: list[tuple[str, str, str, Alternative]] = [
    ("Australia/Brisbane", "", "2026-01-31T10:00:00", Equals(instant("2026-01-31T00:00:00Z"))),
    ("Australia/Brisbane", "", "2026-01-31T10:00:00Z", Equals(instant("2026-01-31T10:00:00Z"))),
    ("Australia/Brisbane", "", "2026-01-31T10:00:00+0200", Equals(instant("2026-01-31T08:00:00Z"))),
    ("Australia/Brisbane", "", "2026-01-31", day("2026-01-30T14:00:00Z", "2026-01-31T14:00:00Z")),
    ("Australia/Brisbane", ":in", "2026-01-01..2026-01-31", day("2025-12-31T14:00:00Z", "2026-01-31T14:00:00Z")),
    ("Australia/Brisbane", ":in", "2026-01-31..", After(instant("2026-01-31T14:00:00Z") - MICROSECOND)),
    ("Australia/Brisbane", ":in", "..2026-01-31", Before(instant("2026-01-30T14:00:00Z"))),
    # Days of 23 and 25 hours.
    ("Europe/Berlin", "", "2026-03-29", day("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")),
    ("Europe/Berlin", "", "2026-10-25", day("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")),
    # Without a midnight, the day begins at one o'clock.
    ("America/Sao_Paulo", "", "2018-11-04", day("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z")),
    # The last hour happens twice: the day includes both.
    ("America/Sao_Paulo", "", "2018-02-17", day("2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z")),
    # An hour that happens twice means its first occurrence, except at the end of a range.
    ("Europe/Berlin", "", "2026-10-25T02:30:00", Equals(instant("2026-10-25T00:30:00Z"))),
    (
        "Europe/Berlin",
        ":in",
        "2026-10-25T02:00:00..2026-10-25T02:30:00",
        Between(instant("2026-10-25T00:00:00Z"), instant("2026-10-25T01:30:00Z")),
    ),
    ("Europe/Berlin", ":in", "..2026-10-25T02:30:00", Before(instant("2026-10-25T01:30:00Z"))),
    ("Europe/Berlin", ":in", "2026-10-25T02:30:00..", After(instant("2026-10-25T00:30:00Z"))),
    ("Europe/Berlin", ":in", "..2026-10-25T02:30:00+0200", Before(instant("2026-10-25T00:30:00Z"))),
    # An hour that never happens is read by the clock before the change.
    ("Europe/Berlin", ":in", "..2026-03-29T02:30:00", Before(instant("2026-03-29T01:30:00Z"))),
    ("", ":in", "..2026-10-25T02:30:00", Before(instant("2026-10-25T02:30:00Z"))),
]


@each(("zone", "operator", "text", "expected"), CASES)
def test_values_are_read_in_the_time_zone_of_the_query(
    zone: str, operator: str, text: str, expected: Alternative
) -> None:
    """Times without an offset and dates, wherever `_tz` stands among the parameters."""
    pair, named = (f"creation_time{operator}", text), [("_tz", zone)] if zone else []
    assert alternatives(*named, pair) == (expected,)
    assert alternatives(pair, *named) == (expected,)


@each("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@each("text", ["0001-01-01", "9999-12-31", "0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_a_time_zone_beyond_the_ends_of_the_calendar_is_no_error(zone: str, text: str) -> None:
    for key, value in [("creation_time", text), ("creation_time:in", f"{text}.."), ("creation_time:in", f"..{text}")]:
        assert len(alternatives(("_tz", zone), (key, value))) == 1


def test_dates_and_times_of_list_fields_are_never_shifted() -> None:
    """Values of list fields have no time zone."""
    for key, text in [("born", "1990-01-31"), ("visit", "2026-05-04"), ("visit", "2026-05-04T10:00:00")]:
        assert alternatives((key, text), ("_tz", "Australia/Brisbane")) == alternatives((key, text))


DAYS = [instant(f"2026-01-0{day}T00:00:00Z") for day in range(1, 6)]
BOUNDS: list[Alternative] = [
    *(After(low) for low in DAYS),
    *(Before(high) for high in DAYS),
    *(Between(low, high) for low in DAYS for high in DAYS),
    *(Between(FIRST_INSTANT, high) for high in DAYS),
    *(Between(low, LAST_INSTANT) for low in DAYS),
    Between(FIRST_INSTANT, LAST_INSTANT),
    *(Equals(moment) for moment in DAYS),
    IsNull(),
]
CREATION_TIME = Filter("creation_time", FilterType.TIMESTAMP)


def meets(moment: datetime, condition: FilterCondition) -> bool:
    (bound,) = condition.alternatives
    match bound:
        case After(datetime() as low):
            return moment > low
        case Before(datetime() as high):
            return moment < high
        case Between(datetime() as low, datetime() as high):
            return low <= moment <= high
        case Equals(value):
            return moment == value
    return False


@each(("bound", "place", "ascending"), list(itertools.product(BOUNDS, DAYS, (True, False))))
def test_behind_a_place_the_same_items_meet_what_is_left(bound: Alternative, place: datetime, ascending: bool) -> None:
    """Conditions on other times and negations stay as they are."""
    condition = FilterCondition(CREATION_TIME, "in", (bound,))
    behind = [moment for moment in DAYS if (moment >= place if ascending else moment <= place)]
    reduced = beyond((condition,), "creation_time", place, ascending=ascending)
    for moment in behind:
        assert all(meets(moment, left) for left in reduced) is meets(moment, condition)
    assert beyond((condition,), "send_time", place, ascending=ascending) == (condition,)
    negated = FilterCondition(CREATION_TIME, "ne", (bound,))
    assert beyond((negated,), "creation_time", place, ascending=ascending) == (negated,)


BEFORE, PLACE, BEHIND = DAYS[1:4]
FROM_BEFORE, FROM_PLACE, FROM_BEHIND = (After(low - MICROSECOND) for low in (BEFORE, PLACE, BEHIND))
TO_BEFORE, TO_PLACE, TO_BEHIND = (Before(high + MICROSECOND) for high in (BEFORE, PLACE, BEHIND))
LEFT: list[tuple[Alternative, Alternative | None, Alternative | None]] = [
    (After(BEFORE), None, After(BEFORE)),
    (After(PLACE), After(PLACE), After(PLACE)),
    (After(BEHIND), After(BEHIND), After(BEHIND)),
    (Before(BEFORE), Before(BEFORE), Before(BEFORE)),
    (Before(PLACE), Before(PLACE), Before(PLACE)),
    (Before(BEHIND), Before(BEHIND), None),
    (Between(BEFORE, BEHIND), TO_BEHIND, FROM_BEFORE),
    (Between(BEFORE, PLACE), TO_PLACE, FROM_BEFORE),
    (Between(PLACE, BEHIND), TO_BEHIND, FROM_PLACE),
    (Between(BEFORE, BEFORE), TO_BEFORE, Between(BEFORE, BEFORE)),
    (Between(BEHIND, BEHIND), Between(BEHIND, BEHIND), FROM_BEHIND),
    (Between(FIRST_INSTANT, BEHIND), TO_BEHIND, None),
    (Between(BEFORE, LAST_INSTANT), None, FROM_BEFORE),
    (Between(FIRST_INSTANT, LAST_INSTANT), None, None),
    (Equals(PLACE), Equals(PLACE), Equals(PLACE)),
    (IsNull(), IsNull(), IsNull()),
]
"""A bound, and what is left of it behind the place: ascending, and descending."""


@each(("bound", "ascending", "descending"), LEFT)
def test_behind_a_place_no_bound_is_left_that_all_meet(
    bound: Alternative, ascending: Alternative | None, descending: Alternative | None
) -> None:
    condition = FilterCondition(CREATION_TIME, "in", (bound,))
    for left, is_ascending in ((ascending, True), (descending, False)):
        expected = () if left is None else (FilterCondition(CREATION_TIME, "in", (left,)),)
        assert beyond((condition,), "creation_time", PLACE, ascending=is_ascending) == expected
