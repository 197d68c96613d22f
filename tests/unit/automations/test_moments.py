"""When waits end: times of day and dates in the account's zone, and how late a moment may be
(docs/automation-runs.md#time)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.automations.definition import WEEKDAYS, Duration, Unit, UntilDate, UntilTime
from app.automations.walk import day_in, end_of_time, in_year, is_missed, local_moment, moment_of_date, next_time
from tests.support.cases import each

NEW_YORK = ZoneInfo("America/New_York")
"""2026: one hour forward on 8 March at 02:00, one back on 1 November at 02:00."""
SYDNEY = ZoneInfo("Australia/Sydney")
"""2026: one hour back on 5 April at 03:00, one forward on 4 October at 02:00."""
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
"""2026: half an hour forward on 4 October at 02:00."""
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
"""2018: one hour forward on 4 November at 00:00."""
APIA = ZoneInfo("Pacific/Apia")
"""Had no 30 December 2011."""
MINUTE_BY_MINUTE = [NEW_YORK, SYDNEY, LORD_HOWE, SAO_PAULO, ZoneInfo("Asia/Kathmandu"), UTC]


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def from_seconds(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@each(
    ("zone", "day", "at", "moment"),
    [
        (NEW_YORK, date(2026, 3, 7), time(2, 30), "2026-03-07 07:30"),
        (NEW_YORK, date(2026, 3, 8), time(1, 59), "2026-03-08 06:59"),
        (NEW_YORK, date(2026, 3, 8), time(2, 0), "2026-03-08 07:00"),
        (NEW_YORK, date(2026, 3, 8), time(2, 30), "2026-03-08 07:00"),
        (NEW_YORK, date(2026, 3, 8), time(2, 59), "2026-03-08 07:00"),
        (NEW_YORK, date(2026, 3, 8), time(3, 0), "2026-03-08 07:00"),
        (NEW_YORK, date(2026, 3, 8), time(3, 1), "2026-03-08 07:01"),
        (SYDNEY, date(2026, 10, 4), time(2, 30), "2026-10-03 16:00"),
        (LORD_HOWE, date(2026, 10, 4), time(2, 20), "2026-10-03 15:30"),
        (SAO_PAULO, date(2018, 11, 4), time(0, 0), "2018-11-04 03:00"),
        (SAO_PAULO, date(2018, 11, 4), time(0, 45), "2018-11-04 03:00"),
        (APIA, date(2011, 12, 30), time(9, 0), "2011-12-30 10:00"),
    ],
)
def test_a_time_that_the_zone_leaves_out_is_the_first_moment_after_the_gap(
    zone: ZoneInfo, day: date, at: time, moment: str
) -> None:
    assert local_moment(day, at, zone) == utc(moment)


@each(
    ("zone", "day", "at", "moment"),
    [
        (NEW_YORK, date(2026, 11, 1), time(0, 59), "2026-11-01 04:59"),
        (NEW_YORK, date(2026, 11, 1), time(1, 30), "2026-11-01 05:30"),
        (NEW_YORK, date(2026, 11, 1), time(2, 0), "2026-11-01 07:00"),
        (SYDNEY, date(2026, 4, 5), time(2, 30), "2026-04-04 15:30"),
        (SYDNEY, date(2026, 4, 5), time(3, 0), "2026-04-04 17:00"),
    ],
)
def test_of_a_time_that_the_zone_has_twice_the_first_counts(zone: ZoneInfo, day: date, at: time, moment: str) -> None:
    assert local_moment(day, at, zone) == utc(moment)


def clock(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


@each("zone", MINUTE_BY_MINUTE)
@each("day", [date(2026, 3, 8), date(2026, 4, 5), date(2026, 10, 4), date(2018, 11, 4)])
def test_a_time_of_day_is_the_first_minute_in_which_a_clock_shows_it_or_a_later_one(zone: tzinfo, day: date) -> None:
    """Asked of a clock that is read every minute, for every half hour of a day on which some zone changes."""
    start = datetime.combine(day, time(0), UTC) - timedelta(hours=15)
    readings = [(clock(moment, zone), moment) for moment in (start + timedelta(minutes=n) for n in range(60 * 46))]
    for at in (time(hour, minute) for hour in range(24) for minute in (0, 30)):
        wall = datetime.combine(day, at)
        # The clock never shows a time of this day before it is set back to it, so the first one that is late enough
        # is the moment.
        assert local_moment(day, at, zone) == next(moment for reading, moment in readings if reading >= wall)


@each(
    ("start", "until", "moment"),
    [
        # 22 November 2026 is a Sunday; New York is five hours behind.
        ("2026-11-22 13:59:59", UntilTime(time(9)), "2026-11-22 14:00"),
        ("2026-11-22 14:00", UntilTime(time(9)), "2026-11-22 14:00"),
        ("2026-11-22 14:00:01", UntilTime(time(9)), "2026-11-23 14:00"),
        ("2026-11-22 14:00", UntilTime(time(9), ("monday", "tuesday")), "2026-11-23 14:00"),
        ("2026-11-24 14:00:01", UntilTime(time(9), ("monday", "tuesday")), "2026-11-30 14:00"),
        ("2026-11-22 14:00:01", UntilTime(time(9), ("sunday",)), "2026-11-29 14:00"),
        # Monday in UTC, Sunday evening in New York.
        ("2026-11-23 03:00", UntilTime(time(23), ("sunday",)), "2026-11-23 04:00"),
        # Over the change, and between the two times that the clock shows 01:30.
        ("2026-03-07 15:00", UntilTime(time(9)), "2026-03-08 13:00"),
        ("2026-03-07 08:00", UntilTime(time(2, 30)), "2026-03-08 07:00"),
        ("2026-03-08 07:00:01", UntilTime(time(2, 30)), "2026-03-09 06:30"),
        ("2026-11-01 05:45", UntilTime(time(1, 30)), "2026-11-02 06:30"),
    ],
)
def test_a_wait_for_a_time_ends_when_the_clock_shows_it_next(start: str, until: UntilTime, moment: str) -> None:
    assert next_time(until, utc(start), NEW_YORK) == utc(moment)


def test_a_wait_for_a_weekday_that_the_zone_leaves_out_ends_at_its_end() -> None:
    friday = UntilTime(time(9), ("friday",))
    assert next_time(friday, utc("2011-12-29 20:00"), APIA) == utc("2011-12-30 10:00")


@given(
    start=st.integers(int(utc("2011-01-01").timestamp()), int(utc("2030-01-01").timestamp())).map(from_seconds),
    at=st.times().map(lambda at: at.replace(second=0, microsecond=0)),
    on=st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    zone=st.sampled_from([*MINUTE_BY_MINUTE, APIA]),
)
def test_a_time_of_day_comes_within_eight_days_and_shows_on_the_clock(
    start: datetime, at: time, on: set[str], zone: tzinfo
) -> None:
    moment = next_time(UntilTime(at, tuple(day for day in WEEKDAYS if day in on)), start, zone)
    assert start <= moment <= start + timedelta(days=8, hours=1)
    reading = clock(moment, zone)
    if reading.time() == at:
        assert WEEKDAYS[reading.weekday()] in on
    else:
        # Left out: a minute before, the clock showed less.
        assert clock(moment - timedelta(seconds=1), zone).time() < at or reading.time() < at


@pytest.mark.parametrize(
    ("amount", "unit", "hours"), [(90, "minutes", 1.5), (2, "hours", 2), (2, "days", 48), (1, "weeks", 168)]
)
def test_a_day_of_a_duration_has_24_hours_whatever_the_clock_does(amount: int, unit: Unit, hours: float) -> None:
    start = utc("2026-03-07 12:00")
    assert start + Duration(amount, unit).delta == start + timedelta(hours=hours)


def test_a_time_to_react_ends_with_its_last_whole_second() -> None:
    assert end_of_time(utc("2026-11-22 10:00:00.700000"), Duration(2, "days")) == utc("2026-11-24 10:00:00")


def test_a_moment_is_missed_when_it_is_a_day_past() -> None:
    target = utc("2026-03-08 06:30")
    assert not is_missed(target, target - timedelta(days=5))
    assert not is_missed(target, target + timedelta(hours=23, minutes=59, seconds=59))
    assert is_missed(target, target + timedelta(hours=24))


@each(
    ("text", "day"),
    [
        ("1990-02-28", date(1990, 2, 28)),
        ("2026-11-22T23:30:00", date(2026, 11, 22)),
        ("2026-11-23T03:30:00Z", date(2026, 11, 22)),
        ("2026-11-23T03:30:00+0000", date(2026, 11, 22)),
        ("2026-11-22T23:30:00-0500", date(2026, 11, 22)),
        ("1990-02-29", None),
        ("2026-11-22T25:30:00", None),
        ("0001-01-01T00:00:00+0500", None),
        ("19900228", None),
        ("tomorrow", None),
        ("", None),
    ],
)
def test_a_date_is_the_day_that_the_value_names_in_the_zone(text: str, day: date | None) -> None:
    assert day_in(text, NEW_YORK) == day


@each(
    ("until", "day", "moment"),
    [
        (UntilDate("born"), date(2026, 12, 1), "2026-12-01 05:00"),
        (UntilDate("born", 0, time(9)), date(2026, 12, 1), "2026-12-01 14:00"),
        (UntilDate("born", -7, time(9)), date(2026, 12, 1), "2026-11-24 14:00"),
        (UntilDate("born", 1, time(2, 30)), date(2027, 3, 13), "2027-03-14 07:00"),
        (UntilDate("born", -7, time(9)), date(2020, 3, 10), "2020-03-03 14:00"),
        (UntilDate("born", -1, time(0)), date(1, 1, 1), "0002-01-01 04:56:02"),
        (UntilDate("born", 400, time(9)), date(9999, 12, 31), "9998-12-31 14:00"),
    ],
)
def test_a_date_field_names_a_moment_of_its_own_year(until: UntilDate, day: date, moment: str) -> None:
    assert moment_of_date(until, day, utc("2026-11-22 10:00"), NEW_YORK) == utc(moment)


@each(
    ("day", "start", "moment"),
    [
        (date(1990, 5, 3), "2026-11-22 10:00", "2027-05-03 13:00"),
        (date(1990, 12, 3), "2026-11-22 10:00", "2026-12-03 14:00"),
        # Today, three hours ago; a second less than a day ago; a day ago.
        (date(1990, 11, 22), "2026-11-22 17:00", "2026-11-22 14:00"),
        (date(1990, 11, 22), "2026-11-23 13:59:59", "2026-11-22 14:00"),
        (date(1990, 11, 22), "2026-11-23 14:00", "2027-11-22 14:00"),
        (date(1992, 2, 29), "2026-11-22 10:00", "2027-02-28 14:00"),
        (date(1992, 2, 29), "2027-11-22 10:00", "2028-02-29 14:00"),
        # No earlier than the year of the date itself.
        (date(2031, 5, 3), "2026-11-22 10:00", "2031-05-03 13:00"),
        (date(1, 5, 3), "2026-11-22 10:00", "2027-05-03 13:00"),
    ],
)
def test_a_past_date_counts_in_the_next_year_in_which_it_is_not_missed(day: date, start: str, moment: str) -> None:
    until = UntilDate("born", 0, time(9), "next year")
    assert moment_of_date(until, day, utc(start), NEW_YORK) == utc(moment)


@pytest.mark.parametrize(
    ("offset", "moment"), [(-7, "2026-12-27 14:00"), (40, "2027-02-12 14:00"), (360, "2026-12-29 14:00")]
)
def test_days_before_and_after_a_date_reach_over_the_turn_of_the_year(offset: int, moment: str) -> None:
    until = UntilDate("born", offset, time(9), "next year")
    assert moment_of_date(until, date(1990, 1, 3), utc("2026-11-22 10:00"), NEW_YORK) == utc(moment)


@given(
    day=st.dates(),
    offset=st.integers(-400, 400),
    start=st.dates(date(2020, 1, 1), date(2040, 1, 1)),
    hour=st.integers(0, 23),
)
def test_next_year_is_the_first_that_is_not_missed(day: date, offset: int, start: date, hour: int) -> None:
    """Against the same day of all years, counted from the year of the date."""
    moment = datetime.combine(start, time(12), UTC)
    until = UntilDate("born", offset, time(hour), "next year")
    expected = moment_of_date(until, day, moment, SYDNEY)
    days = (in_year(day, year) for year in range(max(day.year, 2015), max(day.year, 2015) + 40) if year < 9990)
    all_moments = [local_moment(day + timedelta(days=offset), time(hour), SYDNEY) for day in days]
    assert expected == next(
        (candidate for candidate in all_moments if moment - candidate < timedelta(days=1)), expected
    )
