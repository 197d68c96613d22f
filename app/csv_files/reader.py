"""Reads the rows of a CSV file, each with the number of its line.

A row that is not CSV is returned with its text, and the next row begins on the next line. What is read ahead is
bounded: a file without line ends, or with a quote that is never closed, ends with an error.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, TextIO

import orjson

from app.clock import timestamp

BLOCK_BYTES = 1024 * 1024
START_BYTES = 4096
"""Bytes by which it is told what a file is."""
EXCEL_WORKBOOK = "an Excel workbook (.xlsx)"
FOREIGN_SIGNATURES = (
    (b"PK\x03\x04", b"mimetypeapplication/vnd.oasis.opendocument.", "an OpenDocument spreadsheet (.ods)"),
    *((b"PK\x03\x04", name, EXCEL_WORKBOOK) for name in (b"[Content_Types].xml", b"xl/")),
    *((mark, b"", "packed (.zip)") for mark in (b"PK\x03\x04", b"PK\x05\x06")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", "an Excel workbook (.xls, or one with a password)"),
    (b"\x1f\x8b", b"", "packed (.gz)"),
)
"""How a file begins that is no text, what is at its start besides, and what it is then."""


class UnreadableFile(ValueError):
    """A file that cannot be read as CSV, whatever its rows say."""


def check_is_text(file: BinaryIO) -> None:
    """Raises `UnreadableFile` for a spreadsheet's own file and for a packed one (docs/csv.md)."""
    file.seek(0)
    start = file.read(START_BYTES)
    what = next((what for mark, part, what in FOREIGN_SIGNATURES if start.startswith(mark) and part in start), None)
    if what is not None:
        remedy = "unpack it and import the CSV" if "packed" in what else "save it as CSV UTF-8 and import the saved"
        raise UnreadableFile(f"the file is {what}, not CSV: {remedy} file")


# The encoding of a file: told by its first bytes, or found by reading all of it (docs/csv.md).
#
# A file that is not UTF-8 throughout is assumed to be Windows-1252, which spreadsheets write in western Europe and
# America. It is not if most of what is beyond ASCII is valid UTF-8: that is a damaged file in UTF-8, every name in
# which the assumption would garble.

UTF_8 = "utf-8"
ASSUMED_ENCODING = "windows-1252"
ENCODINGS = (
    *(UTF_8, "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"),
    *(f"windows-{page}" for page in range(1250, 1259)),
    *(f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))),
    *("mac-roman", "cp437", "cp850", "cp852", "koi8-r", "shift_jis", "euc-jp", "euc-kr", "gb18030", "big5"),
)
"""The encodings that a command accepts by name. `utf-8-sig` is UTF-8 with the mark at the beginning by which
spreadsheets recognise it."""

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
UNDECODED_BYTE = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler `surrogateescape` decodes it."""
NON_ASCII_CHARACTER = re.compile("[^\x00-\x7f]")


def find_encoding(file: BinaryIO) -> str:
    """The encoding, one of `ENCODINGS`. Raises `UnreadableFile` for a damaged file."""
    file.seek(0)
    start = file.read(START_BYTES)
    told = next((name for mark, name in BYTE_ORDER_MARKS if start.startswith(mark)), None) or _utf_16_without_mark(
        start
    )
    if told:
        return told
    line = _faulty_line(file, UTF_8)
    if line is None:
        return UTF_8
    if _is_mostly_utf_8(file):
        raise UnreadableFile(
            f"line {line} is not UTF-8, but most of the other characters beyond ASCII are: the file is damaged there. "
            "Mend the line, or name the encoding of the file with --encoding"
        )
    return ASSUMED_ENCODING


def _utf_16_without_mark(start: bytes) -> str | None:
    """UTF-16, if every other byte is mostly null, as in texts of which most is Latin."""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) * 8 <= len(start) or min(even, odd) * 8 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _faulty_line(file: BinaryIO, encoding: str) -> int | None:
    """The first line that does not have the encoding; None if all have it."""
    lines = 0
    try:
        for text in _decoded_blocks(file, encoding, "strict"):
            lines += text.count("\n")
    except UnicodeError as error:
        if isinstance(error, UnicodeDecodeError):
            lines += error.object[: error.start].count(b"\n")
        return lines + 1
    return None


def _is_mostly_utf_8(file: BinaryIO) -> bool:
    """Whether more characters beyond ASCII are UTF-8 than bytes are not."""
    excess = 0
    for text in _decoded_blocks(file, UTF_8, "surrogateescape"):
        if not text.isascii():
            excess += len(NON_ASCII_CHARACTER.findall(text)) - 2 * len(UNDECODED_BYTE.findall(text))
    return excess > 0


def check_encoding(file: BinaryIO, encoding: str) -> None:
    """Raises `UnreadableFile`, with the line, if the file does not have the encoding."""
    line = _faulty_line(file, encoding)
    if line is not None:
        advice = ". Name its encoding with --encoding" if encoding == ASSUMED_ENCODING else ""
        raise UnreadableFile(f"line {line} is not {encoding}{advice}")


def _decoded_blocks(file: BinaryIO, encoding: str, errors: str) -> Iterator[str]:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while block := file.read(BLOCK_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


# The delimiter of a file, found from its first rows. Pure.

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""Delimiters by their names, the most frequent first."""
MAX_SAMPLE_ROWS = 20
"""Rows that are compared to find the delimiter."""
DELIMITER_LINE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*')
"""A first line with which spreadsheets name the delimiter. It is no row."""

IsKnown = Callable[[str], bool]
"""Whether a column may have this name."""


def find_delimiter(sample: str, is_known: IsKnown) -> str:
    """The delimiter of a text with the first rows of a file. It is the one with which the head can be read and has the
    most names that are known, then the one with which the most rows have as many cells as the head."""
    named = DELIMITER_LINE.match(sample)
    if named:
        return named[1]
    return max(DELIMITERS.values(), key=lambda delimiter: _fit(_first_rows(sample, delimiter), is_known))


def delimiter_name(delimiter: str) -> str:
    """The delimiter in words."""
    names = {sign: f"{name}s" for name, sign in DELIMITERS.items()}
    return names.get(delimiter, repr(delimiter))


def _fit(rows: Sequence[Sequence[str]], is_known: IsKnown) -> tuple[bool, int, float, int]:
    if not rows:
        return False, 0, 0.0, 0
    head, *others = rows
    even = sum(len(row) == len(head) for row in others) / len(others) if others else 1.0
    return len(head) > 1, sum(map(is_known, head)), even, len(head)


def _first_rows(sample: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
            if len(rows) > MAX_SAMPLE_ROWS:
                break
    except csv.Error:
        pass  # The sample may end inside a row, and one that cannot be read says nothing about those before it.
    return rows


LONGEST_ROW = 1_000_000
"""Characters that a row may have, with all its line ends."""
MAX_COLUMNS = 1000
SAMPLE_CHARACTERS = 65_536
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
        self._text, self._delimiter = text, delimiter
        self._lines_read = self._length = 0
        self._row_lines: list[str] = []
        self._parser = csv.reader(self._lines(), delimiter=delimiter, strict=True)
        head = next(self._parsed_rows(), None)
        if head is None:
            raise UnreadableFile("the file is empty; its first line names the columns")
        if head.problem is not None:
            raise UnreadableFile(f"line {head.line}: {head.problem}")
        if len(head.cells) > MAX_COLUMNS:
            raise UnreadableFile(f"line {head.line}: more than {MAX_COLUMNS} columns")
        self.head: Sequence[str] = head.cells
        self.head_line = head.line

    def rows(self) -> Iterator[FileRow]:
        """The rows that are left, each with as many cells as the head: those that a row lacks at its end are empty, and
        one that has more is a problem. Rows without a character in any cell are skipped."""
        width = len(self.head)
        for row in self._parsed_rows():
            size = len(row.cells)
            if size > width:
                yield row._replace(problem=f"has {size} cells, but the header has {width}")
            elif row.problem is None and size < width:
                yield row._replace(cells=[*row.cells, *[""] * (width - size)])
            else:
                yield row

    def _parsed_rows(self) -> Iterator[FileRow]:
        while True:
            self._row_lines, self._length = [], 0
            try:
                cells = next(self._parser)
            except StopIteration:
                return
            except csv.Error as error:
                yield FileRow(self._line, (), str(error), tuple(self._row_lines))
            else:
                if any(cells):
                    yield FileRow(self._line, cells)

    @property
    def _line(self) -> int:
        """The line where the row begins that is being read."""
        return self._lines_read - len(self._row_lines) + 1

    def _lines(self) -> Iterator[str]:
        """The lines for the parser."""
        while line := self._text.readline(LONGEST_ROW + 1):
            self._lines_read += 1
            if self._lines_read == 1 and DELIMITER_LINE.fullmatch(line):
                continue
            self._row_lines.append(line)
            self._length += len(line)
            if self._length > LONGEST_ROW:
                many = f"more than {LONGEST_ROW:,} characters"
                raise UnreadableFile(f"line {self._line}: the row has {many}. Check it for a missing closing quote")
            yield line

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
        sample = text.read(SAMPLE_CHARACTERS)
    end = max(sample.rfind("\n"), sample.rfind("\r"))
    return find_delimiter(sample[: end + 1] if len(sample) == SAMPLE_CHARACTERS and end >= 0 else sample, is_known)


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


# Cells of a CSV file, as spreadsheets can open them without harm. Pure.

NUMBER = re.compile(r"-?[0-9]+(?P<part>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
"""The start of a text that a spreadsheet takes for a formula; some accept the full-width forms of the signs, too."""


def cell(value: Any) -> str:
    """The cell of a value in a CSV file. A text that a spreadsheet would run as a formula is prefixed with `'`, and so
    is one that seems to have the prefix already; `from_cell` removes exactly one. Numbers stay numbers, times are
    written as the API writes them, lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return timestamp(value)
    text = orjson.dumps(value).decode() if isinstance(value, list | dict) else str(value)
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def from_cell(text: str) -> str:
    """The text of a cell, without the `'` that an export has added."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
