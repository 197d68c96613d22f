"""Values of list fields by type (docs/contacts.md#values)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contacts.values import InvalidValue, clean_value
from app.lists.fields import FIELD_TYPES, FieldSpec
from tests.support.cases import each

STRINGS = [
    "Phone Number",
    "First Name",
    "Last Name",
    "Address Line",
    "Suburb",
    "Postcode or ZIP Code",
    "State",
    "Gender",
    "Country",
    "Industry",
    "Unsubscribe Reason",
    "Unsubscribe Feedback",
    "Text Field",
    "Password Field",
    "Comment Field",
    "HTML Snippet",
    "File Upload",
]
NUMBERS = ["Currency", "Number"]
OPTIONS = ("one", "two", "Three")


def field(type_: str) -> FieldSpec:
    options = OPTIONS if type_ in ("Dropdown", "Radio Buttons", "Checkbox") else ()
    return FieldSpec(1, "the_field", type_, type_, options)


ACCEPTED: list[tuple[str, Any]] = [
    *[(type_, "some text") for type_ in STRINGS],
    ("Text Field", "ä" * 10_000),
    ("Email", "Ann@example.com"),
    ("Mobile Phone", "61411111111"),
    ("Website Address / URL", "https://example.com/a?b=1#c"),
    ("Website Address / URL", "http://localhost:8080"),
    ("Website Address / URL", "http://[::1]/x"),
    ("Website Address / URL", "https://bücher.example/ä"),
    ("Dropdown", "one"),
    ("Radio Buttons", "Three"),
    ("Checkbox", "one"),
    ("Checkbox", "Three,one"),
    ("Date of Birth", "1990-02-28"),
    ("Date of Birth", "2000-02-29"),
    ("Date Picker", "2026-01-31"),
    ("Date Picker", "2026-01-31T23:59:59"),
    ("Number", 3),
    ("Number", -0.5),
    ("Number", 2**63 - 1),
    ("Currency", 12.75),
]


@each(("type_", "value"), ACCEPTED)
def test_accepted_values_are_not_changed(type_: str, value: Any) -> None:
    assert clean_value(field(type_), value) == value


@each("type_", list(FIELD_TYPES))
def test_null_is_accepted_by_every_type(type_: str) -> None:
    assert clean_value(field(type_), None) is None


@each("type_", [type_ for type_ in FIELD_TYPES if type_ not in NUMBERS])
def test_an_empty_string_is_null_for_types_whose_values_are_strings(type_: str) -> None:
    assert clean_value(field(type_), "") is None


@pytest.mark.parametrize("type_", NUMBERS)
def test_an_empty_string_is_refused_for_numbers(type_: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        clean_value(field(type_), "")
    assert caught.value.code == "invalid_number"


def test_an_integer_beyond_64_bits_becomes_a_float() -> None:
    assert clean_value(field("Number"), 2**63) == float(2**63)


REFUSED: list[tuple[str, Any, str]] = [
    *[(type_, 5, "invalid_string") for type_ in STRINGS],
    *[(type_, ["x"], "invalid_string") for type_ in STRINGS],
    *[(type_, "x" * 10_001, "too_long") for type_ in STRINGS],
    ("Text Field", "a\x00b", "invalid_string"),
    ("Text Field", "\ud800", "invalid_string"),
    ("Email", 5, "invalid_string"),
    ("Email", "nope", "invalid_email_address"),
    ("Email", "x" * 11_000 + "@example.com", "invalid_email_address"),
    ("Mobile Phone", 61411111111, "invalid_string"),
    ("Mobile Phone", "0411111111", "invalid_mobile_address"),
    ("Website Address / URL", "not a url", "invalid_url"),
    ("Website Address / URL", "example.com", "invalid_url"),
    ("Website Address / URL", "ftp://example.com", "invalid_url"),
    ("Website Address / URL", "javascript:alert(1)", "invalid_url"),
    ("Website Address / URL", "https://", "invalid_url"),
    ("Website Address / URL", "https://exa mple.com", "invalid_url"),
    ("Website Address / URL", "https://example.com:port", "invalid_url"),
    ("Website Address / URL", "https://[::1", "invalid_url"),
    ("Website Address / URL", 5, "invalid_string"),
    ("Website Address / URL", "https://example.com/" + "x" * 10_000, "too_long"),
    ("Dropdown", "four", "invalid_string"),
    ("Dropdown", "ONE", "invalid_string"),
    ("Radio Buttons", "three", "invalid_string"),
    ("Checkbox", "one,four", "invalid_string"),
    ("Checkbox", "one,,two", "invalid_string"),
    ("Checkbox", ["one"], "invalid_string"),
    ("Date of Birth", "yesterday", "invalid_iso_date"),
    ("Date of Birth", "28/02/1990", "invalid_iso_date"),
    ("Date of Birth", "1990-2-8", "invalid_iso_date"),
    ("Date of Birth", "1990-02-28T00:00:00", "invalid_iso_date"),
    ("Date of Birth", "١٩٩٠-٠٢-٢٨", "invalid_iso_date"),
    ("Date of Birth", 19900228, "invalid_iso_date"),
    ("Date of Birth", "1990-02-30", "invalid_date"),
    ("Date of Birth", "1990-13-01", "invalid_date"),
    ("Date of Birth", "0000-01-01", "invalid_date"),
    ("Date Picker", "noon", "invalid_iso_date_time"),
    ("Date Picker", "2026-01-31 10:00:00", "invalid_iso_date_time"),
    ("Date Picker", "2026-01-31T10:00", "invalid_iso_date_time"),
    ("Date Picker", "2026-01-31T10:00:00Z", "invalid_iso_date_time"),
    ("Date Picker", "2026-02-30", "invalid_date_time"),
    ("Date Picker", "2026-02-30T10:00:00", "invalid_date_time"),
    ("Date Picker", "2026-02-03T25:00:00", "invalid_date_time"),
    ("Date Picker", "2026-02-03T24:00:00", "invalid_date_time"),
    ("Date Picker", "2026-02-03T10:60:00", "invalid_date_time"),
    ("Number", "12", "invalid_number"),
    ("Number", True, "invalid_number"),
    ("Number", [1], "invalid_number"),
    ("Number", float("nan"), "invalid_number"),
    ("Number", float("inf"), "invalid_number"),
    ("Number", 10**400, "invalid_number"),
    ("Currency", "12.50", "invalid_number"),
]


@each(("type_", "value", "code"), REFUSED)
def test_a_refused_value_has_a_code_and_a_text_that_names_the_field(type_: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        clean_value(field(type_), value)
    assert raised.value.code == code
    assert "the_field" in raised.value.detail


@pytest.mark.parametrize("type_", ["Dropdown", "Radio Buttons", "Checkbox"])
def test_a_choice_without_options_accepts_any_text(type_: str) -> None:
    assert clean_value(FieldSpec(1, "free", type_, type_), "a,b") == "a,b"


@pytest.mark.parametrize("type_", ["Dropdown", "Radio Buttons", "Checkbox"])
def test_a_refused_choice_names_the_first_options_and_how_many_more_there_are(type_: str) -> None:
    for number, listed in (
        (10, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10."),
        (11, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1 more."),
        (1000, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 990 more."),
    ):
        options = tuple(str(option) for option in range(1, number + 1))
        with pytest.raises(InvalidValue) as raised:
            clean_value(FieldSpec(1, "the_field", type_, type_, options), "none")
        assert raised.value.detail.partition(": ")[2] == listed


JSON: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.just({})
)


@given(st.sampled_from(list(FIELD_TYPES)), JSON)
def test_any_json_value_is_accepted_or_refused_with_a_code(type_: str, value: Any) -> None:
    with suppress(InvalidValue):
        cleaned = clean_value(field(type_), value)
        assert cleaned is None or cleaned == value
