"""Results of queries in SQLite and in PostgreSQL."""

from __future__ import annotations

from sqlalchemy import Engine

from app.query.parameters import MAX_PARAMETERS
from tests.support.cases import each

from .sample import Pair
from .things import count_things, find, find_page, statement

ALL = [1, 2, 3, 4, 5, 6]
HUGE = "9" * 30

FOUND: dict[str, tuple[list[Pair], list[int]]] = {
    "no filter": ([], ALL),
    "integer": ([("sent", "10")], [3, 4]),
    "integer not": ([("sent:ne", "10")], [1, 2, 5, 6]),
    "integer in": ([("sent:in", "1,5,7")], [1, 2]),
    "integer null": ([("sent", "")], [5]),
    "integer not null": ([("sent:ne", "")], [1, 2, 3, 4, 6]),
    "integer range has both ends": ([("sent:in", "1..5")], [1, 2]),
    "integer after is strict": ([("sent:in", "5..")], [3, 4, 6]),
    "integer before is strict": ([("sent:in", "..5")], [1]),
    "values and ranges": ([("sent:in", "1,4..6,2147483647")], [1, 2, 6]),
    "reversed range": ([("sent:in", "5..1")], []),
    "beyond 32 bits": ([("sent", "2147483648")], []),
    "in, beyond 32 bits": ([("sent:in", "1,2147483648")], [1]),
    "range beyond 32 bits": ([("sent:in", "2147483647..9223372036854775807")], [6]),
    "after the end of 32 bits": ([("sent:in", "2147483647..")], []),
    "beyond 64 bits": ([("sent", HUGE)], []),
    "not beyond 64 bits": ([("sent:ne", HUGE)], ALL),
    "range beyond 64 bits": ([("sent:in", f"-{HUGE}..{HUGE}")], [1, 2, 3, 4, 6]),
    "string": ([("name", "Smith")], [3]),
    "string with a comma": ([("name", "Smith, Jr")], [1]),
    "string escaped in a list": ([("name:in", "Smith\\, Jr,smith")], [1, 2]),
    "string not": ([("name:ne", "Smith")], [1, 2, 4, 5, 6]),
    "string null or empty": ([("name", "")], [4, 5]),
    "string neither null nor empty": ([("name:ne", "")], [1, 2, 3, 6]),
    "no patterns": ([("name", "%")], []),
    "no patterns either": ([("name", "Smit_")], []),
    "odd characters": ([("name", "ü%_\\")], [6]),
    "no injection": ([("name", "' OR '1'='1")], []),
    "null byte": ([("name", "Smith\0")], []),
    "null byte in a list": ([("name:in", "Smith,\0")], [3]),
    "not a null byte": ([("name:ne", "\0")], ALL),
    "lone surrogate": ([("name", "\udcff")], []),
    "email in any case": ([("email", "ANN@Example.com")], [1]),
    "email not": ([("email:ne", "Ann@example.com")], [2, 3, 4, 5, 6]),
    "email in": ([("email:in", "ANN@example.com,dee@EXAMPLE.com")], [1, 4]),
    "enum": ([("type", "sms")], [3, 4]),
    "enum not": ([("type:ne", "sms")], [1, 2, 5, 6]),
    "true": ([("is_active", "true")], [1, 2, 6]),
    "false": ([("is_active", "false")], [3, 4]),
    "not true": ([("is_active:ne", "true")], [3, 4, 5]),
    "true or false": ([("is_active:in", "true,false")], [1, 2, 3, 4, 6]),
    "neither": ([("is_active", "")], [5]),
    "expression true": ([("blocked", "true")], [2, 5]),
    "expression false": ([("blocked", "false")], [1, 3, 4, 6]),
    "expression not true": ([("blocked:ne", "true")], [1, 3, 4, 6]),
    "expression in": ([("blocked:in", "true,false")], ALL),
    "negated expression true": ([("subscribed.email", "true")], [1, 2, 4, 5, 6]),
    "negated expression false": ([("subscribed.email", "false")], [3]),
    "timestamp": ([("creation_time", "2026-01-31T10:00:00Z")], [3]),
    "timestamp with offset": ([("creation_time", "2026-01-31T20:00:00 1000")], [3]),
    "timestamp in": ([("creation_time:in", "2026-01-31T10:00:00Z,2026-01-31T23:59:59Z")], [3, 4]),
    "timestamp not": ([("creation_time:ne", "2026-01-31T10:00:00Z")], [1, 2, 4, 5, 6]),
    "day": ([("creation_time", "2026-01-31")], [2, 3, 4]),
    "not that day": ([("creation_time:ne", "2026-01-31")], [1, 5, 6]),
    "day in its zone": ([("creation_time", "2026-01-31"), ("_tz", "Australia/Brisbane")], [1, 2, 3]),
    "days": ([("creation_time:in", "2026-01-30..2026-01-31")], [1, 2, 3, 4]),
    "after the day": ([("creation_time:in", "2026-01-31..")], [5, 6]),
    "before the day": ([("creation_time:in", "..2026-01-31")], [1]),
    "first day": ([("creation_time:in", "0001-01-01..")], ALL),
    "last day": ([("creation_time:in", "..9999-12-31")], ALL),
    "ends of the calendar": ([("creation_time:in", "0001-01-01..9999-12-31"), ("_tz", "Pacific/Kiritimati")], ALL),
    "float": ([("spend", "1.5")], [1]),
    "float given as an integer": ([("spend", "5")], [2]),
    "float not": ([("spend:ne", "1.5")], [2, 3, 4, 5, 6]),
    "float null": ([("spend", "")], [5]),
    "float range": ([("spend:in", "-2..5")], [1, 2, 3]),
    "float after": ([("spend:in", "5..")], [4, 6]),
    "float before": ([("spend:in", "..1.5")], [3]),
    "float beyond the largest": ([("spend:in", "0..1e999")], [1, 2, 4, 6]),
    "float infinite": ([("spend", "1e999")], []),
    "float below the smallest": ([("spend:in", "5e-324..2")], [1]),
    "date": ([("born", "1990-01-02")], [2]),
    "date not": ([("born:ne", "1990-01-02")], [1, 3, 4, 5, 6]),
    "date in": ([("born:in", "1990-01-01,2000-02-29")], [1, 6]),
    "dates": ([("born:in", "1990-01-01..1990-01-02")], [1, 2]),
    "after a date": ([("born:in", "1990-01-03..")], [4, 6]),
    "before a date": ([("born:in", "..1990-01-03")], [1, 2]),
    "last date": ([("born", "9999-12-31")], [4]),
    "date null": ([("born", "")], [5]),
    "date-time": ([("visit", "2026-05-04T10:00:00")], [4]),
    "date-time in": ([("visit:in", "2026-05-04T10:00:00,2026-05-03T23:59:59")], [1, 4]),
    "day of date-times": ([("visit", "2026-05-04")], [2, 3, 4]),
    "not that day of date-times": ([("visit:ne", "2026-05-04")], [1, 5, 6]),
    "a date is its midnight": ([("visit", "2026-05-04T00:00:00")], [2, 3]),
    "not a date's midnight": ([("visit:ne", "2026-05-04T00:00:00")], [1, 4, 5, 6]),
    "days of date-times": ([("visit:in", "2026-05-03..2026-05-04")], [1, 2, 3, 4]),
    "after a day of date-times": ([("visit:in", "2026-05-04..")], [6]),
    "before a day of date-times": ([("visit:in", "..2026-05-04")], [1]),
    "from a midnight": ([("visit:in", "2026-05-04T00:00:00..2026-05-04T10:00:00")], [2, 3, 4]),
    "to a midnight": ([("visit:in", "2026-05-03..2026-05-04T00:00:00")], [1, 2, 3]),
    "after a midnight": ([("visit:in", "2026-05-04T00:00:00..")], [4, 6]),
    "before a midnight": ([("visit:in", "..2026-05-05T00:00:00")], [1, 2, 3, 4]),
    "date-times have no zone": ([("visit", "2026-05-04"), ("_tz", "Pacific/Kiritimati")], [2, 3, 4]),
    "different filters are and": ([("type", "email"), ("is_active", "true"), ("sent:in", "2..")], [2, 6]),
    "repeated filters are and": ([("sent:in", "1..5"), ("sent:in", "5..10")], [2]),
    "contradiction": ([("name", "Smith"), ("name", "smith")], []),
}


@each("case", list(FOUND))
def test_filters_find_the_expected_rows(things: Engine, case: str) -> None:
    """See docs/querying.md#filters."""
    pairs, expected = FOUND[case]
    assert find(things, *pairs) == expected
    assert count_things(things, *pairs) == len(expected)


def test_pages_are_sorted_and_know_whether_there_is_a_next_one(things: Engine) -> None:
    """Newest first, then by descending id; one further row is selected to detect a next page."""
    assert find_page(things) == ([6, 5, 4, 3, 2, 1], False)
    assert find_page(things, ("limit", "4")) == ([6, 5, 4, 3], True)
    assert find_page(things, ("limit", "4"), ("offset", "2")) == ([4, 3, 2, 1], False)
    assert find_page(things, ("limit", "4"), ("offset", "4")) == ([2, 1], False)


@each("offset", ["6", "2147483648", "9223372036854775807", HUGE])
def test_an_offset_beyond_the_end_finds_nothing(things: Engine, offset: str) -> None:
    """Every offset from 0 is valid."""
    assert find_page(things, ("offset", offset), ("limit", "1000")) == ([], False)


def test_a_list_of_1000_values_works(things: Engine) -> None:
    numbers = ",".join(str(number) for number in range(4, 1004))
    assert find(things, ("id:in", numbers)) == [4, 5, 6]
    assert str(statement(("id:in", numbers))) == str(statement(("id:in", "1,2")))


def test_a_list_of_1000_ranges_works(things: Engine) -> None:
    """Each range counts as one element, and both databases accept as many."""
    ranges = ",".join(f"{start}..{start + 1}" for start in range(5, 4005, 4))
    assert find(things, ("id:in", ranges)) == [5, 6]
    assert find(things, ("name", "ü%_\\"), ("id:in", ranges)) == [6]
    assert find(things, ("name", "Smith"), ("id:in", ranges)) == []


def test_the_maximum_number_of_conditions_works(things: Engine) -> None:
    """Repeated parameters all apply, in both databases."""
    assert find(things, *[("sent:ne", str(number)) for number in range(2, MAX_PARAMETERS + 2)]) == [1, 5, 6]


@each("text", ["' OR '1'='1", "x'; drop table things; --", "%s", ":name", "?"])
def test_values_are_bound_parameters(text: str) -> None:
    """No value of a client becomes part of the SQL text."""
    for key in ("name", "name:ne", "name:in", "email"):
        assert str(statement((key, text))) == str(statement((key, "plain")))
