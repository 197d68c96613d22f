"""The operators of conditions (docs/personalisation.md#conditionals)."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.conditions import OPERATORS
from tests.support.cases import each


def is_true(name: str, value: str, operand: str, zone: tzinfo = UTC) -> bool:
    return OPERATORS[name](value, operand, zone)


# operator: (pairs of value and operand that satisfy it, pairs that do not)
TABLE: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "HAS": ([("x", ""), (" ", "")], [("", "")]),
    "CONTAINS": (
        [("Brisbane", "BRIS"), ("Straße", "STRASSE"), ("x", "")],
        [("Brisbane", "perth"), ("", "x")],
    ),
    "EXACTLY": ([("Gold", "gOLD"), ("", "")], [("gold", "gold "), ("gold", "gol"), ("10", "10.0"), ("", "x")]),
    "INCLUDES": (
        [("red,green", "Red"), ("red, green", "green"), ("red", "blue,red")],
        [("red", "re"), ("red", ""), ("", "red"), ("", ""), (",", ",")],
    ),
    "INCLUDESALL": (
        [("red,green,blue", "blue, RED"), ("red", "red,,red")],
        [("red", "red,blue"), ("", "red"), ("red", ""), ("", "")],
    ),
    "GREATERTHAN": (
        [
            ("10", "9"),
            ("0.1", "-1"),
            ("10.01", "10"),
            ("1e3", "999"),
            (" 2 ", "1"),
            ("9007199254740993", "9007199254740992"),
        ],
        [
            ("10", "10"),
            ("9", "10"),
            ("", "1"),
            ("1", ""),
            ("b", "a"),
            ("1,000", "1"),
            ("0x10", "1"),
            ("٣", "1"),
            ("5", "2026-01-01"),
        ],
    ),
    "GREATERTHANEQUAL": ([("10", "10.0"), ("11", "10")], [("9", "10"), ("", ""), ("a", "a")]),
    "LESSTHAN": ([("9", "10"), ("-1.5", "-1"), (".5", "1.")], [("10", "9"), ("10", "10"), ("", "1")]),
    "LESSTHANEQUAL": ([("10.0", "10"), ("1", "2")], [("2", "1"), ("", ""), ("NaN", "NaN"), ("Infinity", "Infinity")]),
}

DATES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "GREATERTHAN": (
        [
            ("2026-02-01", "2026-01-31"),
            ("2026-02-01T00:00:00", "2026-01-31"),
            ("2026-01-31T10:00:01", "2026-01-31T10:00:00"),
            ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00+1000"),
            ("2026-01-31 10:00", "2026-01-31T09:59:59"),
        ],
        [
            ("2026-01-31", "2026-01-31"),
            ("2026-01-31T10:00:00", "2026-01-31"),  # a date stands for its whole day
            ("2026-02-30", "2026-01-01"),  # this day does not exist
            ("2026-01-01T25:00:00", "2025-01-01"),
            ("01/02/2026", "01/01/2026"),
            ("2026-02-01", "yesterday"),
        ],
    ),
    "GREATERTHANEQUAL": ([("2026-01-31", "2026-01-31T10:00:00")], [("2026-01-30", "2026-01-31")]),
    "LESSTHAN": ([("1999-12-31", "2000-01-01")], [("2000-01-01", "1999-12-31"), ("2000-01-01", "2000-01-01")]),
    "LESSTHANEQUAL": (
        [("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00")],
        [("2026-01-31T10:00:01", "2026-01-31T10:00:00Z")],
    ),
}

CASES = [
    (name, value, operand, expected)
    for table in (TABLE, DATES)
    for name, (satisfying, do_not) in table.items()
    for expected, pairs in ((True, satisfying), (False, do_not))
    for value, operand in pairs
]

NEGATED = {
    "HASNOT": "HAS",
    "NOTCONTAINS": "CONTAINS",
    "NOTEXACTLY": "EXACTLY",
    "NOTINCLUDES": "INCLUDES",
    "NOTINCLUDESALL": "INCLUDESALL",
}


@each(("name", "value", "operand", "expected"), CASES)
def test_operator(name: str, value: str, operand: str, expected: bool) -> None:
    assert is_true(name, value, operand) is expected


@each("name", NEGATED)
def test_a_negated_operator_is_true_when_the_other_is_false(name: str) -> None:
    for satisfying, pairs in zip((True, False), TABLE[NEGATED[name]], strict=True):
        for value, operand in pairs:
            assert is_true(name, value, operand) is not satisfying


@pytest.mark.parametrize("moment", ["2026-01-31T10:00:00+1060", "2026-01-31T10:00-00:75", "2026-01-31T24:00:00"])
def test_a_time_or_an_offset_out_of_range_has_no_order(moment: str) -> None:
    assert not is_true("GREATERTHAN", moment, "2020-01-01")
    assert not is_true("LESSTHAN", moment, "2030-01-01")


@each(
    ("value", "operand", "in_brisbane", "in_utc"),
    [
        ("2026-01-31T10:00:00+1000", "2026-01-31T09:59:59", True, False),
        ("2026-01-31T00:00:00Z", "2026-01-31T09:59:59", True, False),
        ("2026-01-31T10:00:00", "2026-01-31T09:59:59", True, True),
        ("2026-01-31T10:00:00", "2026-01-31T00:00:00Z", False, True),
        ("2026-01-31T10:00:00+1000", "2026-01-30", True, True),
        ("2026-01-31T10:00:00+1000", "2026-01-31", False, False),
    ],
)
def test_a_time_without_a_zone_is_in_the_zone_of_the_account(
    value: str, operand: str, in_brisbane: bool, in_utc: bool
) -> None:
    assert is_true("GREATERTHAN", value, operand, ZoneInfo("Australia/Brisbane")) is in_brisbane
    assert is_true("GREATERTHAN", value, operand) is in_utc


def test_there_are_no_further_operators() -> None:
    assert set(OPERATORS) == {*TABLE, *NEGATED}


NUMBER_LIKE = st.one_of(
    st.text(),
    st.text("0123456789+-.eE :TZ"),
    st.decimals().map(str),
    st.integers().map(str),
    st.datetimes(timezones=st.none() | st.timezones()).map(lambda moment: moment.isoformat()),
    st.sampled_from(["0001-01-01T00:00:00+2359", "9999-12-31T23:59:59-2359", "1e999999", "1e-999999", "9" * 10_000]),
)


@given(st.sampled_from(sorted(OPERATORS)), NUMBER_LIKE, NUMBER_LIKE)
def test_no_operator_ever_raises(name: str, value: str, operand: str) -> None:
    assert is_true(name, value, operand) in (True, False)


@given(st.integers(), st.integers())
def test_numbers_compare_as_numbers(left: int, right: int) -> None:
    assert is_true("GREATERTHAN", str(left), str(right)) is (left > right)
    assert is_true("LESSTHANEQUAL", str(left), str(right)) is (left <= right)


@given(st.dates(), st.dates())
def test_dates_compare_as_dates(left: object, right: object) -> None:
    assert is_true("LESSTHAN", str(left), str(right)) is (str(left) < str(right))
