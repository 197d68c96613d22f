"""Rows as lines of PostgreSQL's COPY format, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.copies.tables import Kind, Stored, decode_rows, encode_rows

KINDS = (Kind.PLAIN, Kind.TEXT, Kind.BOOLEAN, Kind.TIME, Kind.BYTES)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TIMES = st.datetimes().map(lambda moment: moment.isoformat(" ", "microseconds"))
ROWS = st.tuples(
    st.none() | TEXTS | st.sampled_from(["\\N", "\\t", "\\", "\t", "\r\n", "\\\\N"]),
    st.none() | TEXTS,
    st.none() | st.integers(0, 1),
    st.none() | TIMES,
    st.none() | st.binary(),
)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_come_back_as_they_were_each_in_one_line(rows: list[tuple[Stored, ...]]) -> None:
    text = encode_rows(KINDS, rows)
    assert (text.count(b"\n"), text.count(b"\r"), text[-1:]) == (len(rows), 0, b"\n")
    assert list(decode_rows(KINDS, text.splitlines(keepends=True))) == rows


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_a_line_does_not_depend_on_its_neighbours(rows: list[tuple[Stored, ...]]) -> None:
    """Lines without anything to escape are written another way where a line beside them has something."""
    assert encode_rows(KINDS, rows) == b"".join(encode_rows(KINDS, [row]) for row in rows)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2026-11-22 03:00:00+00", "2026-11-22 03:00:00.000000"),
        ("2026-11-22 03:00:00.5+00", "2026-11-22 03:00:00.500000"),
        ("2026-11-22 03:00:00.123456+00", "2026-11-22 03:00:00.123456"),
        ("2026-11-22 13:30:00.123456+10:30", "2026-11-22 03:00:00.123456"),
    ],
)
def test_times_of_postgresql_are_stored_as_sqlite_compares_them(written: str, stored: str) -> None:
    assert list(decode_rows([Kind.TIME], [f"{written}\n".encode()])) == [(stored,)]


def test_numbers_keep_their_form() -> None:
    kinds = [Kind.PLAIN] * 3
    assert encode_rows(kinds, [[2**62, 0.1, 1e-300]]) == b"4611686018427387904\t0.1\t1e-300\n"


def test_a_line_of_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 2 columns instead of 1"):
        decode_rows([Kind.PLAIN], [b"a\n", b"a\tb\n"])
