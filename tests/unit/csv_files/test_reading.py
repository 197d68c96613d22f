"""Any file that people write is read as it was meant, or refused with a reason."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.csv_files.reader import (
    DELIMITERS,
    LONGEST_ROW,
    FileFormat,
    FileRow,
    UnreadableFile,
    check_encoding,
    find_delimiter,
    find_encoding,
    find_format,
    reading,
)
from tests.support.cases import each
from tests.support.foreign_files import FOREIGN_FILES

NAMES = ("email", "First Name", "plan", "score", "subscribed.email")
LINE_END = re.compile("\r\n|\r|\n")
PLAIN = "ab1 '\",;|\t\n\r="
WESTERN = f"{PLAIN}éüßÄøñ"
"""In Windows-1252 none of these letters is a byte that could continue a character of UTF-8."""
ENCODINGS = {
    **dict.fromkeys(("utf-8", "utf-8-sig", "utf-16", "utf-32"), f"{WESTERN}漢☃\u2028\x85🙂"),
    **dict.fromkeys(("utf-16-le", "utf-16-be"), PLAIN),
    "windows-1252": WESTERN,
}
"""Encoding -> the characters of cells by which it can be told."""


def is_column(name: str) -> bool:
    return name in NAMES


def read(content: bytes) -> tuple[FileFormat, list[str], list[FileRow]]:
    """The format that is found, the head and the rows."""
    file = io.BytesIO(content)
    form = find_format(file, is_column)
    with reading(file, form) as reader:
        return form, list(reader.head), list(reader.rows())


def rows_of(content: str) -> list[FileRow]:
    return read(content.encode())[2]


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str, bool, Sequence[str], Sequence[Sequence[str]]]:
    """An encoding, a delimiter, whether all cells are quoted, the head and rows."""
    encoding = draw(st.sampled_from(sorted(ENCODINGS)))
    head = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    cells = st.text(st.sampled_from(ENCODINGS[encoding]), max_size=12)
    rows = draw(st.lists(st.lists(cells, min_size=len(head), max_size=len(head)), max_size=30))
    if encoding == "windows-1252":
        rows.append(["é", *head[1:]])  # Without a letter beyond ASCII it is UTF-8, too.
    return encoding, draw(st.sampled_from(sorted(DELIMITERS.values()))), draw(st.booleans()), head, rows


@given(files())
def test_a_file_is_read_as_it_was_written_whatever_its_format(
    file: tuple[str, str, bool, Sequence[str], Sequence[Sequence[str]]],
) -> None:
    encoding, delimiter, all_quoted, head, rows = file
    quoting: Literal[0, 1] = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
    writer.writerow(head)
    expected = []
    for row in rows:
        line = len(LINE_END.findall(text.getvalue())) + 1
        writer.writerow(row)
        if any(row):
            expected.append((line, list(row)))
    form, found_head, data_rows = read(text.getvalue().encode(encoding))
    assert form == FileFormat(encoding, delimiter)
    assert found_head == head
    assert [(row.line, list(row.cells)) for row in data_rows] == expected


@given(st.lists(st.sampled_from([b'"', b",", b";", b"\n", b"\r", b"a", b"\xe9", b"\xc3\xa9", b"\x00", b"\xff\xfe"])))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    try:
        form, _, rows = read(content)
    except UnreadableFile:
        return
    lines = content.decode(form.encoding).replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    places = [row.line for row in rows]
    assert places == sorted(set(places))
    assert all(1 <= place <= lines for place in places)


@each(
    ("sample", "delimiter"),
    [
        ("email\n", ","),
        ("email;plan\na@example.com;gold\n", ";"),
        ('"email";"First Name"\n"a@example.com";"A, B, C"\n', ";"),
        ('email,plan\n"a@example.com","x;y;z"\n', ","),
        ("email;note, private;plan\na@example.com;1,5;gold\n", ";"),
        ("email\tplan\n", "\t"),
        ("email|plan\n", "|"),
        ("sep=;\nemail,plan\n", ";"),
        ("a;b,c\n1;2\n3;4\n", ";"),
        ('"email"x;plan\n', ","),
    ],
)
def test_the_delimiter_is_the_one_that_fits_head_and_rows(sample: str, delimiter: str) -> None:
    assert find_delimiter(sample, is_column) == delimiter


def test_a_line_that_names_the_delimiter_is_no_row() -> None:
    form, head, rows = read(b'"sep=;"\r\nemail;plan\r\na@example.com;gold\r\n')
    assert (form.delimiter, head) == (";", ["email", "plan"])
    assert rows == [FileRow(3, ["a@example.com", "gold"])]


def test_a_damaged_file_in_utf_8_is_not_taken_for_another_encoding() -> None:
    good = "email,First Name\na@example.com,René\nb@example.com,Zoë\n".encode()
    with pytest.raises(UnreadableFile, match=r"line 4 is not UTF-8, but most of the other characters beyond ASCII are"):
        find_encoding(io.BytesIO(good + b"c@example.com,Ren\xe9\n"))


def test_a_file_that_does_not_have_the_encoding_is_refused_with_the_line() -> None:
    with pytest.raises(UnreadableFile, match=r"line 2 is not windows-1252. Name its encoding with --encoding"):
        check_encoding(io.BytesIO(b"email\n\x81\n"), "windows-1252")
    with pytest.raises(UnreadableFile, match=r"line 3 is not utf-8$"):
        check_encoding(io.BytesIO(b"email\n\n\xe9\n"), "utf-8")


def test_a_row_that_is_not_csv_has_its_lines_and_the_next_one_is_read() -> None:
    rows = rows_of('email,plan\n"a" b,gold\nb@example.com,free\n')
    assert rows == [
        FileRow(2, (), "',' expected after '\"'", ('"a" b,gold\n',)),
        FileRow(3, ["b@example.com", "free"]),
    ]


def test_cells_that_a_row_lacks_at_its_end_are_empty_and_no_row_has_more_than_the_head() -> None:
    assert rows_of("email,plan,First Name\na@example.com\nb@example.com,gold\nc@example.com,,,\n") == [
        FileRow(2, ["a@example.com", "", ""]),
        FileRow(3, ["b@example.com", "gold", ""]),
        FileRow(4, ["c@example.com", "", "", ""], "has 4 cells, but the header has 3"),
    ]


@each(("content", "error"), FOREIGN_FILES)
def test_a_spreadsheet_and_a_packed_file_are_told_from_csv(content: bytes, error: str) -> None:
    for encoding in (None, "utf-8", "windows-1252"):
        with pytest.raises(UnreadableFile) as refused:
            find_format(io.BytesIO(content), is_column, encoding=encoding)
        assert str(refused.value) == error


def test_a_quote_that_is_never_closed_takes_the_lines_behind_it_only() -> None:
    (good, bad) = rows_of('email,plan\na@example.com,gold\n"b@example.com,free\nc@example.com,free\n')
    assert good.cells == ["a@example.com", "gold"]
    assert (bad.line, bad.problem) == (3, "unexpected end of data")
    assert bad.texts == ('"b@example.com,free\n', "c@example.com,free\n")


@pytest.mark.parametrize("text", ["x" * (LONGEST_ROW + 1), '"' + "x\n" * 60_000 + "," + "x" * LONGEST_ROW])
def test_what_is_read_ahead_is_bounded(text: str) -> None:
    """A file without line ends, or one very long row, would else fill the memory."""
    with pytest.raises(UnreadableFile, match=r"the row has more than 1,000,000 characters"):
        rows_of(f"email,plan\n{text}")


def test_columns_are_limited() -> None:
    with pytest.raises(UnreadableFile, match=r"line 1: more than 1000 columns"):
        rows_of(",".join(["email"] * 1001))
