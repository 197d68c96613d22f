"""Wildcard values of recipients and contacts (docs/personalisation.md#values)."""

from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st

from app.content.values import MergedValues, WildcardValue, recipient_values
from tests.support.cases import each


def test_names_are_compared_without_case() -> None:
    assert recipient_values({"NickName": "Ann"}, html_encoded=False) == {
        "nickname": WildcardValue("Ann", encoded=False)
    }


def test_null_is_absent_and_empty_is_not() -> None:
    assert recipient_values({"a": None, "b": ""}, html_encoded=False) == {"b": WildcardValue("", encoded=False)}


@each(("number", "text"), [(12, "12"), (-3, "-3"), (12.5, "12.5"), (12.0, "12.0"), (1e22, "1e+22")])
def test_a_number_has_its_json_text(number: float, text: str) -> None:
    assert recipient_values({"n": number}, html_encoded=True)["n"].text == text


def test_values_are_encoded_where_the_send_says_so() -> None:
    assert recipient_values({"v": "x"}, html_encoded=True) == {"v": WildcardValue("x", encoded=True)}


def test_a_hash_marks_one_value_as_html() -> None:
    assert recipient_values({"#Html": "<b>", "plain": "<b>"}, html_encoded=False) == {
        "html": WildcardValue("<b>", encoded=True),
        "plain": WildcardValue("<b>", encoded=False),
    }


def test_contact_fields_are_plain_text() -> None:
    assert MergedValues({}, {"first_name": "<i>Ann</i>", "last_name": None}) == {
        "first_name": WildcardValue("<i>Ann</i>", encoded=False)
    }


def test_the_first_source_with_a_value_is_used() -> None:
    recipient_source = recipient_values({"A": "own", "b": ""}, html_encoded=True)
    all_values = MergedValues(recipient_source, {"a": "x", "b": "x", "c": "known", "d": None}, {"c": "x", "d": "late"})
    assert {name: value.text for name, value in all_values.items()} == {"a": "own", "b": "", "c": "known", "d": "late"}
    assert (all_values.get("e"), "e" in all_values, len(all_values)) == (None, False, 4)


@each(
    ("value", "text"),
    [
        (7.0, "7"),
        (12.5, "12.5"),
        (0.0000001, "0.0000001"),
        (1e16, "10000000000000000"),
        (-0.5, "-0.5"),
        (10, "10"),
        (True, "true"),
        (False, "false"),
        ("07", "07"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 10, tzinfo=UTC), "2026-01-31T10:00:00+00:00"),
    ],
)
def test_a_contact_field_has_a_text(value: object, text: str) -> None:
    assert MergedValues({}, {"field": value})["field"].text == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_field_keeps_its_value(number: float) -> None:
    text = MergedValues({}, {"n": number})["n"].text
    assert float(text) == number
    assert "e" not in text
