"""Reads the rows of a CSV file, each with the number of its line.

A row that is not CSV is returned with its text, and the next row begins on the next line. What is read ahead is
bounded: a file without line ends, or with a quote that is never closed, ends with an error.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, TextIO

from app.csv_files.delimiters import NAMED_IN_FILE, IsKnown, find_delimiter
from app.csv_files.encodings import check_encoding, find_encoding
from app.csv_files.source import UnreadableFile, check_is_text

LONGEST_ROW = 1_000_000
"""Characters, with all its line ends."""
MOST_COLUMNS = 1000
SAMPLE = 65_536
"""Characters by which the delimiter is found."""


class FileFormat(NamedTuple):
    """How a file is read and written."""

    encoding: str
    delimiter: str


class FileRow(NamedTuple):
    """A row: the line where it begins, and its cells. `problem` says why it cannot be used, if so; one that is not CSV
    has its lines as they are in place of cells."""

    line: int
    cells: Sequence[str]
    problem: str | None = None
    texts: Sequence[str] = ()


class CsvReader:
    """The head of a file, and its rows."""

    def __init__(self, text: TextIO, delimiter: str) -> None:
        self._delimiter = delimiter
        self._lines = _Lines(text)
        self._parser = csv.reader(self._lines, delimiter=delimiter, strict=True)
        head = next(self._parsed(), None)
        if head is None:
            raise UnreadableFile("the file is empty; its first line names the columns")
        if head.problem is not None:
            raise UnreadableFile(f"line {head.line}: {head.problem}")
        if len(head.cells) > MOST_COLUMNS:
            raise UnreadableFile(f"line {head.line}: more than {MOST_COLUMNS} columns")
        self.head: Sequence[str] = head.cells
        self.head_line = head.line

    def rows(self) -> Iterator[FileRow]:
        """The rows that are left, each with as many cells as the head: those that a row lacks at its end are empty, and
        one that has more is a problem. Rows without a character in any cell are skipped."""
        width = len(self.head)
        for row in self._parsed():
            size = len(row.cells)
            if size > width:
                yield row._replace(problem=f"has {size} cells, the head has {width}")
            elif row.problem is None and size < width:
                yield row._replace(cells=[*row.cells, *[""] * (width - size)])
            else:
                yield row

    def _parsed(self) -> Iterator[FileRow]:
        while True:
            self._lines.begin_row()
            try:
                cells = next(self._parser)
            except StopIteration:
                return
            except csv.Error as error:
                yield FileRow(self._lines.first, (), str(error), tuple(self._lines.of_row))
            else:
                if any(cells):
                    yield FileRow(self._lines.first, cells)

    def parsed_alone(self, text: str) -> list[str]:
        """The cells of a line by itself; a single one with its text if it cannot be read."""
        try:
            return next(csv.reader([text], delimiter=self._delimiter, strict=True), [])
        except csv.Error:
            return [text.rstrip("\r\n")]


@contextmanager
def reading(file: BinaryIO, form: FileFormat) -> Iterator[CsvReader]:
    """A reader of the file from its beginning. Raises `UnreadableFile`."""
    with _as_text(file, form.encoding) as text:
        yield CsvReader(text, form.delimiter)


def find_format(
    file: BinaryIO, is_known: IsKnown, *, encoding: str | None = None, delimiter: str | None = None
) -> FileFormat:
    """How the file is to be read; what is given is not looked for. Raises `UnreadableFile`."""
    check_is_text(file)
    encoding = encoding or find_encoding(file)
    check_encoding(file, encoding)
    return FileFormat(encoding, delimiter or _delimiter_of(file, encoding, is_known))


def _delimiter_of(file: BinaryIO, encoding: str, is_known: IsKnown) -> str:
    """The delimiter of the file, found from its beginning."""
    with _as_text(file, encoding) as text:
        sample = text.read(SAMPLE)
    end = max(sample.rfind("\n"), sample.rfind("\r"))
    return find_delimiter(sample[: end + 1] if len(sample) == SAMPLE and end >= 0 else sample, is_known)


@contextmanager
def _as_text(file: BinaryIO, encoding: str) -> Iterator[TextIO]:
    """The text of the file. Its line ends stay as they are, because cells may contain them."""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding, newline="")
    try:
        yield text
    except UnicodeError:
        raise UnreadableFile(f"the file is not {encoding}") from None
    finally:
        text.detach()


class _Lines:
    """The lines of a file for the parser, and those of the row that it reads."""

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._number = 0
        self._length = 0
        self.of_row: list[str] = []
        self.begin_row()

    def begin_row(self) -> None:
        """Forgets the lines of the row before."""
        self.first = self._number + 1
        self._length = 0
        self.of_row.clear()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_ROW + 1)
        if not line:
            raise StopIteration
        self._number += 1
        if self._number == 1 and NAMED_IN_FILE.fullmatch(line):
            self.begin_row()
            return self.__next__()
        self._length += len(line)
        if self._length > LONGEST_ROW:
            raise UnreadableFile(
                f"line {self.first}: the row has more than {LONGEST_ROW:,} characters. Is a quote in it never closed?"
            )
        self.of_row.append(line)
        return line
