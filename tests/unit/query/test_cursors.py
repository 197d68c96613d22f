"""A cursor is valid for the request that it was made for, and for nothing else (docs/querying.md#cursors)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.query.cursors import Position
from tests.support.cases import each

from .sample import CURSORS, Pair, parse_with_cursors, refused_with_cursors

MOMENT = datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)
POSITION = Position((MOMENT, 2**63 - 1), backward=True)
MADE_FOR: tuple[Pair, ...] = (("limit", "10"), ("name:ne", "é &=+"), ("name:ne", "b"), ("offset", "20"))
MADE = CURSORS.make(POSITION, MADE_FOR)
REFUSED = [("invalid_query_syntax", "cursor")]

orders = st.tuples(st.datetimes(timezones=st.just(UTC)), st.integers(-(2**63), 2**63 - 1))
positions = st.builds(Position, orders, st.booleans(), st.booleans())
pairs = st.lists(st.tuples(st.text(), st.text()).filter(lambda pair: pair[0] != "cursor"), max_size=4)


@given(positions, pairs, st.data())
def test_it_comes_back_as_it_was_made(position: Position, others: list[Pair], data: st.DataObject) -> None:
    cursor = CURSORS.make(position, others)
    assert CURSORS.read(cursor, data.draw(st.permutations(others))) == position
    assert CURSORS.read(cursor, [*others, ("x", "")]) is None


def test_it_is_read_where_it_was_made() -> None:
    query = parse_with_cursors(*MADE_FOR, ("cursor", MADE))
    assert (query.position, query.pairs, query.offset) == (POSITION, MADE_FOR, 20)
    shuffled = parse_with_cursors(("cursor", MADE), *reversed(MADE_FOR))
    assert shuffled.position == POSITION


@each(
    "others",
    [
        (),
        MADE_FOR[:-1],
        (*MADE_FOR[:-1], ("offset", "30")),
        (("limit", "20"), *MADE_FOR[1:]),
        (("limit", "0"), *MADE_FOR[1:]),
        (*MADE_FOR, ("id:ne", "1")),
        (*MADE_FOR, ("fields", "id")),
        (*MADE_FOR, ("_tz", "UTC")),
        (*MADE_FOR[:2], *MADE_FOR[3:]),
    ],
)
def test_another_query_refuses_it(others: tuple[Pair, ...]) -> None:
    assert refused_with_cursors(*others, ("cursor", MADE)) == REFUSED


@each(
    "cursor",
    [
        "",
        "x",
        "!" * 60,
        "A" * 60,
        "A" * 100_000,
        MADE[:-1],
        MADE + "A",
        MADE + "=",
        MADE + "\n",
        MADE.swapcase(),
        "é" * 60,
        "\0" * 60,
        "\udcff" * 60,
    ],
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    assert refused_with_cursors(*MADE_FOR, ("cursor", cursor)) == REFUSED


def test_every_altered_character_is_noticed() -> None:
    for index, character in enumerate(MADE):
        altered = MADE[:index] + ("B" if character == "A" else "A") + MADE[index + 1 :]
        assert CURSORS.read(altered, MADE_FOR) is None, index


@pytest.mark.parametrize("other", [{"account_id": 8}, {"path": "/v1/others"}, {"secret_keys": ("x" * 32,)}])
def test_another_account_path_or_key_refuses_it(other: dict[str, Any]) -> None:
    assert replace(CURSORS, **other).read(MADE, MADE_FOR) is None


def test_a_cursor_of_a_fallback_of_the_key_is_read() -> None:
    newer = replace(CURSORS, secret_keys=("x" * 32, *CURSORS.secret_keys))
    assert newer.read(MADE, MADE_FOR) == CURSORS.read(MADE, MADE_FOR) is not None
    made_anew = newer.make(Position((7,)), MADE_FOR)
    assert newer.read(made_anew, MADE_FOR) == Position((7,))
    assert CURSORS.read(made_anew, MADE_FOR) is None


def test_it_is_given_once_and_without_operator() -> None:
    assert refused_with_cursors(*MADE_FOR, ("cursor", MADE), ("cursor", MADE)) == REFUSED
    assert refused_with_cursors(*MADE_FOR, ("cursor:ne", MADE)) == [("invalid_operator", "cursor")]


def test_its_error_stands_among_the_others_in_order() -> None:
    codes = refused_with_cursors(("limit", "x"), ("cursor", MADE), ("offset", "-1"))
    assert codes == [("invalid_limit", "limit"), *REFUSED, ("invalid_offset", "offset")]
