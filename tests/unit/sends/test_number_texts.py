"""Numbers as wildcard values keep the text that they have in the body (docs/sending.md#wildcard-values)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sends.accept.draft import with_number_texts
from schemas.sends import NO_LIMITS, load_send
from tests.support.cases import each
from tests.support.growth import MOST_GROWTH, growth


def read(source: str) -> list[dict[str, Any]]:
    """The recipients of a body as a send reads them."""
    data = source.encode()
    recipients: list[dict[str, Any]] = with_number_texts(orjson.loads(data), data)["recipients"]
    return recipients


TEXTS = [
    *("9400111899223197228490", "1.50", "1E2", "1e+02", "-0", "-0.0", "0.10", "100.0", "1e-400", "3.0", "0E0"),
    *(str(2**63), str(-(2**63) - 1), "0." + "1" * 400, "9" * 300),
]


@each("text", TEXTS)
def test_a_number_keeps_its_text(text: str) -> None:
    source = (
        f'{{"type": "email", "list_id": 1, "recipients": [{{"email": "a@b.example", "v": {text}, "w": "{text}"}}]}}'
    )
    body = with_number_texts(orjson.loads(source), source.encode())
    (recipient,) = load_send(body, "email", NO_LIMITS).recipients
    assert recipient.values == {"v": text, "w": text}


def test_a_body_with_integers_only_is_parsed_once() -> None:
    body = orjson.loads(b'{"recipients": [{"v": 5, "w": 0, "x": -12}]}')
    assert with_number_texts(body, b"not even JSON") is body


def test_other_numbers_than_wildcard_values_stay_numbers() -> None:
    source = '{"list_id": 1.0, "recipients": [{"contact_id": 1.5, "email": 2.5, "mobile": 1.0, "v": 1.0}, 7.5, null]}'
    assert read(source) == [{"contact_id": 1.5, "email": 2.5, "mobile": 1.0, "v": "1.0"}, 7.5, None]
    body = orjson.loads(source)
    assert with_number_texts(body, source.encode())["list_id"] == 1.0


def test_the_last_of_equal_names_counts() -> None:
    source = '{"recipients": [{"v": 1.10, "v": 2.20}], "recipients": [{"v": 3.30, "v": 4.40}, {"v": 5}]}'
    assert read(source) == [{"v": "4.40"}, {"v": "5"}]


def test_other_texts_are_not_changed() -> None:
    assert read('{"recipients": [{"v": 1.0, "w": "\\u00e4\\ud83d\\ude00\\/\\n"}]}') == [{"v": "1.0", "w": "ä😀/\n"}]


@pytest.mark.parametrize("body", ["{}", '{"recipients": 1.5}', '{"recipients": {"v": 1.5}}', '{"recipients": [1.5]}'])
def test_a_body_without_recipients_is_not_changed(body: str) -> None:
    assert with_number_texts(orjson.loads(body), body.encode()) == orjson.loads(body)


def test_a_body_that_is_nested_too_deeply_is_not_changed() -> None:
    source = '{"recipients": [{"v": 1.5, "w": ' + "[" * 1000 + "]" * 1000 + "}]}"
    (recipient,) = read(source)
    assert recipient["v"] in (1.5, "1.5")


VALUES = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5) | st.booleans()


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES | st.lists(VALUES, max_size=2), max_size=4), max_size=4))
def test_any_values_are_read_as_written(recipients: list[dict[str, Any]]) -> None:
    source = json.dumps({"recipients": recipients})
    for recipient, sent in zip(read(source), recipients, strict=True):
        assert list(recipient) == list(sent)
        for name, value in sent.items():
            if isinstance(value, float):
                assert recipient[name] == json.dumps(value)
            elif isinstance(value, int) and not isinstance(value, bool):
                assert str(recipient[name]) == str(value) or abs(value) >= 2**63
            else:
                assert recipient[name] == orjson.loads(json.dumps(value))


@pytest.mark.parametrize(
    "make",
    [
        lambda size: f'{{"recipients": [{{"v": 0.{"3" * size}}}]}}',
        lambda size: f'{{"recipients": [{{"v": 0}}], "a": "{"-1" * size}"}}',
        lambda size: f'{{"recipients": [{{"v": 1.5{"".join(f", {n}: -0" for n in quoted(size // 16))}}}]}}',
        lambda size: f'{{"recipients": [{", ".join(["{}"] * (size // 4))}, {{"v": 1.5}}]}}',
    ],
)
def test_the_time_is_linear_in_the_size_of_the_body(make: Callable[[int], str]) -> None:
    def read(body: bytes) -> object:
        return with_number_texts(orjson.loads(body), body)

    assert growth(read, lambda size: make(size).encode(), 64 * 1024) <= MOST_GROWTH


def quoted(count: int) -> list[str]:
    """Quoted names of attributes."""
    return [f'"w{number}"' for number in range(count)]
