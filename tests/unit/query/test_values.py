"""Values of filters: every type, as single values, in lists and in ranges."""

from __future__ import annotations

from datetime import UTC, date, datetime

from app.query.conditions import After, Alternative, Before, Between, Equals, IsNull
from app.query.values import MAX_INTEGER, MIN_INTEGER, split_list
from tests.support.cases import each

from .sample import alternatives, errors, parse, refused

HUGE = "9" * 30


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


VALUES: list[tuple[str, str, tuple[Alternative, ...]]] = [
    # Single values.
    ("id", "5", (Equals(5),)),
    ("id", "-5", (Equals(-5),)),
    ("id", "005", (Equals(5),)),
    ("spend", "3.5", (Equals(3.5),)),
    ("spend", "3", (Equals(3.0),)),
    ("spend", "-1e-3", (Equals(-0.001),)),
    ("name", "Smith, Jr", (Equals("Smith, Jr"),)),
    ("name", "a..b", (Equals("a..b"),)),
    ("name", "a\\,b", (Equals("a\\,b"),)),
    ("name", " ", (Equals(" "),)),
    ("email", "Ann@Example.COM", (Equals("ann@example.com"),)),
    ("type", "sms", (Equals("sms"),)),
    ("is_active", "true", (Equals(True),)),
    ("is_active", "false", (Equals(False),)),
    ("is_active", "True", (Equals(True),)),
    ("is_active:in", "TRUE,False", (Equals(True), Equals(False))),
    ("born", "1990-01-31", (Equals(date(1990, 1, 31)),)),
    ("visit", "2026-05-04T10:00:00", (Equals(datetime.fromisoformat("2026-05-04T10:00:00")),)),
    # Ranges.
    ("id:in", "1..5", (Between(1, 5),)),
    ("id:in", "-5..-1", (Between(-5, -1),)),
    ("id:in", "5..", (After(5),)),
    ("id:in", "..5", (Before(5),)),
    ("id:in", "1..2,7,9..", (Between(1, 2), Equals(7), After(9))),
    ("id:in", "5..1", ()),
    ("spend:in", "1.5..2.5,..0.5", (Between(1.5, 2.5), Before(0.5))),
    ("born:in", "1990-01-01..1990-01-31", (Between(date(1990, 1, 1), date(1990, 1, 31)),)),
    ("name:in", "a..b,c..", (Equals("a..b"), Equals("c.."))),
    ("email:in", "a..b", (Equals("a..b"),)),
    # Lists.
    ("name:in", "a", (Equals("a"),)),
    ("name:in", "a,b", (Equals("a"), Equals("b"))),
    ("name:in", "Smith\\, Jr,x", (Equals("Smith, Jr"), Equals("x"))),
    ("name:in", "Smith%2C Jr,a%2cb", (Equals("Smith, Jr"), Equals("a,b"))),
    ("name:in", "a\\b,50%", (Equals("a\\b"), Equals("50%"))),
    ("name:in", "a,b\\", (Equals("a"), Equals("b\\"))),
    ("type:in", "email,sms", (Equals("email"), Equals("sms"))),
    ("is_active:in", "true,false", (Equals(True), Equals(False))),
    # No values.
    ("name", "", (IsNull(), Equals(""))),
    ("name:ne", "", (IsNull(), Equals(""))),
    ("email", "", (IsNull(), Equals(""))),
    ("id", "", (IsNull(),)),
    ("is_active", "", (IsNull(),)),
    ("type", "", (IsNull(),)),
    ("creation_time", "", (IsNull(),)),
    ("spend", "", (IsNull(),)),
    ("born", "", (IsNull(),)),
    ("visit", "", (IsNull(),)),
    # Values that no row can have match nothing.
    ("id", str(MAX_INTEGER), (Equals(MAX_INTEGER),)),
    ("id", str(MIN_INTEGER), (Equals(MIN_INTEGER),)),
    ("id", str(MAX_INTEGER + 1), ()),
    ("id", str(MIN_INTEGER - 1), ()),
    ("id", "9" * 5000, ()),
    ("id:ne", HUGE, ()),
    ("id:in", f"1,{HUGE}", (Equals(1),)),
    ("id:in", f"1..{HUGE}", (Between(1, MAX_INTEGER),)),
    ("id:in", f"-{HUGE}..1", (Between(MIN_INTEGER, 1),)),
    ("id:in", f"-{HUGE}..{HUGE}", (Between(MIN_INTEGER, MAX_INTEGER),)),
    ("id:in", f"{HUGE}..{HUGE}9", ()),
    ("id:in", f"{HUGE}..", ()),
    ("id:in", f"..{HUGE}", (Between(MIN_INTEGER, MAX_INTEGER),)),
    ("id:in", f"-{HUGE}..", (Between(MIN_INTEGER, MAX_INTEGER),)),
    ("id:in", f"..-{HUGE}", ()),
    ("name", "a\0b", ()),
    ("name", "\udc80", ()),
    ("email", "\0", ()),
    ("name:in", "a,\0", (Equals("a"),)),
]


@each(("key", "text", "expected"), VALUES)
def test_values_are_parsed_by_type(key: str, text: str, expected: tuple[Alternative, ...]) -> None:
    """See docs/querying.md#values-by-type."""
    assert alternatives((key, text)) == expected


def test_booleans_are_bound_as_booleans() -> None:
    """True equals 1 in Python."""
    [equality] = alternatives(("is_active", "true"))
    assert isinstance(equality, Equals)
    assert equality.value is True


TIMESTAMPS: list[tuple[str, str, tuple[Alternative, ...]]] = [
    ("creation_time", "2026-01-31T10:00:00Z", (Equals(utc("2026-01-31T10:00")),)),
    ("creation_time", "2026-01-31T10:00:00", (Equals(utc("2026-01-31T10:00")),)),
    ("creation_time", "2026-01-31T10:00:00+0000", (Equals(utc("2026-01-31T10:00")),)),
    ("creation_time", "2026-01-31T10:00:00+10:00", (Equals(utc("2026-01-31T00:00")),)),
    ("creation_time", "2026-01-31T10:00:00-0530", (Equals(utc("2026-01-31T15:30")),)),
    ("creation_time", "2026-01-31T10:00:00 1000", (Equals(utc("2026-01-31T00:00")),)),
    ("creation_time", "2026-01-31T10:00:00 10:00", (Equals(utc("2026-01-31T00:00")),)),
    ("creation_time", "2026-01-31", (Between(utc("2026-01-31"), utc("2026-01-31T23:59:59.999999")),)),
    ("creation_time:ne", "2026-01-31", (Between(utc("2026-01-31"), utc("2026-01-31T23:59:59.999999")),)),
    ("creation_time:in", "2026-01-01..2026-01-31", (Between(utc("2026-01-01"), utc("2026-01-31T23:59:59.999999")),)),
    ("creation_time:in", "2026-01-31..", (After(utc("2026-01-31T23:59:59.999999")),)),
    ("creation_time:in", "..2026-01-31", (Before(utc("2026-01-31")),)),
    ("creation_time:in", "2026-01-31T10:00:00Z..", (After(utc("2026-01-31T10:00")),)),
    ("creation_time:in", "..2026-01-31T10:00:00Z", (Before(utc("2026-01-31T10:00")),)),
    (
        "creation_time:in",
        "2026-01-31T10:00:00 1000..2026-02-01",
        (Between(utc("2026-01-31T00:00"), utc("2026-02-01T23:59:59.999999")),),
    ),
]


@each(("key", "text", "expected"), TIMESTAMPS)
def test_forms_of_timestamps(key: str, text: str, expected: tuple[Alternative, ...]) -> None:
    """A date means the whole day, also at both ends of a range."""
    assert alternatives((key, text)) == expected


WRONG = {
    "id": ["abc", "1.0", "1e3", " 1", "+1", "1;drop table contacts", "1..2", "١", "0x1", "1_000", "--1", "-", "1\n"],
    "spend": ["abc", "1.2.3", "nan", "inf", "-Infinity", "1,5", ".5", "5.", "1e", "1_0", "0x1p3", "1..2"],
    "type": ["fax", "EMAIL", "email,sms", "\0"],
    "is_active": ["maybe", "tru", "1", "yes", "true "],
    "creation_time": [
        "yesterday",
        "2026-02-30",
        "2026-13-01",
        "0000-01-01",
        "2026-1-1",
        "20260131",
        "2026-01-31T25:00:00Z",
        "2026-01-31T10:00:60Z",
        "2026-01-31T10:00Z",
        "2026-01-31 10:00:00Z",
        "2026-01-31T10:00:00z",
        "2026-01-31T10:00:00.5Z",
        "2026-01-31T10:00:00+2500",
        "2026-01-31T10:00:00+10",
        "2026-01-31T10:00:00+1060",
        "2026-01-31T10:00:00+10:99",
        "2026-01-31T10:00:00-0075",
        "2026-01-31T10:00:00 1060",
        "2026-01-31T10:00:00+2400",
        "2026-01-31T24:00:00Z",
        "2026-01-31T10:00:00Z\n",
        "2026-W05",
        "1769853600",
        "2026-01-01..2026-01-31",
    ],
    "born": ["1990-02-31", "1990-01-01T00:00:00", "1990", "19900101", "1990-01-01Z"],
    "visit": [
        "2026-05-04T10:00:00Z",
        "2026-05-04T10:00:00+1000",
        "2026-05-04T24:01:00",
        "2026-05-04T24:00:00",
        "2026-05-04 10:00:00",
        "noon",
    ],
}


@each(("name", "text"), [(name, text) for name, texts in WRONG.items() for text in texts])
def test_a_value_of_the_wrong_type_is_refused(name: str, text: str) -> None:
    """The code is `invalid_query_syntax`."""
    assert errors(parse, (name, text)) == [("invalid_query_syntax", name)]
    assert errors(parse, (f"{name}:ne", text)) == [("invalid_query_syntax", name)]


@each(
    ("key", "text"),
    [
        ("id:in", ""),
        ("name:in", ""),
        ("name:in", ","),
        ("id:in", "1,,2"),
        ("id:in", "1,"),
        ("id:in", ",1"),
        ("id:in", "1, 2"),
        ("id:in", "1,abc"),
        ("id:in", "abc"),
        ("id:in", "1\\,2"),
        ("id:in", "1%2C2"),
        ("id:in", ".."),
        ("id:in", "1..2..3"),
        ("id:in", "1..x"),
        ("id:in", "x.."),
        ("id:in", "1...5"),
        ("spend:in", "1..nan"),
        ("is_active:in", "false..true"),
        ("is_active:in", "true,maybe"),
        ("type:in", "email,fax"),
        ("type:in", "email..sms"),
        ("creation_time:in", "2026-01-01,yesterday"),
        ("born:in", "1990-02-31.."),
        ("visit:in", "..2026-05-04T10:00:00Z"),
    ],
)
def test_a_malformed_list_is_refused(key: str, text: str) -> None:
    """Empty and malformed elements are `invalid_filter_list`."""
    assert refused((key, text)) == "invalid_filter_list"


def test_ne_accepts_a_single_value() -> None:
    """A comma in :ne does not make a list."""
    assert refused(("id:ne", "1,2")) == "invalid_query_syntax"
    assert alternatives(("name:ne", "a,b")) == (Equals("a,b"),)


def test_a_backslash_escapes_commas_only() -> None:
    r"""Before any other character it is a backslash."""
    assert split_list("\\\\,a\\b\\") == ["\\,a\\b\\"]
