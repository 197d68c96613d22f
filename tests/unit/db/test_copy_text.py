"""Rows as lines of PostgreSQL's COPY format, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.copies.copy_text import Kind, Stored, row_decoder, row_encoder

KINDS = (Kind.PLAIN, Kind.PLAIN, Kind.BOOLEAN, Kind.TIME, Kind.BYTES)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TIMES = st.datetimes().map(lambda one: one.isoformat(" ", "microseconds"))
ROWS = st.tuples(
    st.none() | TEXTS | st.sampled_from(["\\N", "\\t", "\\", "\t", "\r\n", "\\\\N"]),
    st.none() | TEXTS,
    st.none() | st.integers(0, 1),
    st.none() | TIMES,
    st.none() | st.binary(),
)


@given(ROWS)
def test_a_row_comes_back_as_it_was_in_one_line(row: tuple[Stored, ...]) -> None:
    line = row_encoder(KINDS)(row)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert row_decoder(KINDS)(line) == list(row)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2026-11-22 03:00:00+00", "2026-11-22 03:00:00.000000"),
        ("2026-11-22 03:00:00.5+00", "2026-11-22 03:00:00.500000"),
        ("2026-11-22 13:30:00.123456+10:30", "2026-11-22 03:00:00.123456"),
    ],
)
def test_times_of_postgresql_are_stored_as_sqlite_compares_them(written: str, stored: str) -> None:
    assert row_decoder([Kind.TIME])(f"{written}\n".encode()) == [stored]


def test_numbers_keep_their_form() -> None:
    kinds = [Kind.PLAIN] * 3
    assert row_encoder(kinds)([2**62, 0.1, 1e-300]) == b"4611686018427387904\t0.1\t1e-300\n"


def test_a_line_of_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 2 columns instead of 1"):
        row_decoder([Kind.PLAIN])(b"a\tb\n")
