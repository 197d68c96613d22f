"""Rows of a file that is imported, and what is wrong with them (docs/csv.md#faulty-rows)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

import orjson

from app.csv_files.reader import FileRow
from app.errors import FieldError

MAX_EXAMPLES = 3
MAX_FIRST_ROWS = 20
"""Faulty rows that are kept as they come."""
LONGEST_VALUE = 60
"""Characters of a value that are shown."""
MAX_BYTES_AT_ONCE = 4 * 1024 * 1024
"""How many bytes of rows are taken at once."""


class Fault(NamedTuple):
    """One thing that is wrong with a row: its kind, in words, and the cell that is wrong, if it is a single one."""

    kind: tuple[str, str | None]
    text: str
    value: str | None = None

    @classmethod
    def of(cls, error: FieldError, value: str | None = None) -> Fault:
        """The fault of an attribute."""
        return cls((error.code, error.field), error.developer_message, value)


@dataclass(slots=True)
class Row:
    """A row: its place among all rows of the file, the line where it begins, what it writes, the number of rows before
    it with the same identifier, what is wrong with it, and its cells, while the file is read."""

    place: int
    line: int
    values: dict[str, Any]
    earlier: int = 0
    faults: list[Fault] = field(default_factory=list)
    source: FileRow = FileRow(0, ())

    @property
    def reason(self) -> str:
        """All that is wrong with the row."""
        return "; ".join(fault.text for fault in self.faults)


class FaultReport:
    """The rows of a file, and the faults among them: the first as they come, and all by kind. Bounded: a count and some
    examples for each kind."""

    def __init__(self) -> None:
        self.rows = self.faulty = 0
        self.first: list[tuple[int, str]] = []
        """Lines with what is wrong with them."""
        self._counts: Counter[tuple[str, str | None]] = Counter()
        self._examples: defaultdict[tuple[str, str | None], list[tuple[int, Fault]]] = defaultdict(list)

    def add(self, row: Row) -> None:
        """Adds the faults of a row."""
        self.faulty += 1
        if len(self.first) < MAX_FIRST_ROWS:
            self.first.append((row.line, row.reason))
        for fault in row.faults:
            self._counts[fault.kind] += 1
            if len(self._examples[fault.kind]) < MAX_EXAMPLES:
                self._examples[fault.kind].append((row.line, fault))

    def refusal(self) -> str:
        """Why a file was not imported: one line for a single fault."""
        if self.faulty == 1 and len(self._counts) == 1:
            ((line, fault),) = next(iter(self._examples.values()))
            return f"line {line}: {fault.text}"
        return "\n  ".join([f"nothing was imported, {self.faulty} of {self.rows} rows are faulty:", *self.lines()])

    def lines(self) -> Iterator[str]:
        """Each kind with its number and examples, the most frequent first."""
        for kind, count in self._counts.most_common():
            examples = self._examples[kind]
            yield f"{count} {'row' if count == 1 else 'rows'}: {examples[0][1].text}"
            for line, fault in examples:
                yield f"  line {line}: {fault.text if fault.value is None else shortened(fault.value)}"


def shortened(text: str) -> str:
    """The beginning of a text of a file, quoted."""
    return repr(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…")


class CheckedRows:
    """The valid rows between their check and their import, in a temporary file, because nothing is imported before the
    last row is checked, and memory must not grow with the file. Written once, then taken in their order."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0

    def add(self, row: Row) -> None:
        """Appends a row."""
        self._file.write(orjson.dumps((row.place, row.line, row.values, row.earlier)) + b"\n")
        self.count += 1

    def rewind(self) -> None:
        """Goes to the first row, once all are written."""
        self._file.seek(0)

    def take(self, most: int) -> list[Row]:
        """The next rows; none at the end."""
        rows: list[Row] = []
        size = 0
        while len(rows) < most and size < MAX_BYTES_AT_ONCE and (line := self._file.readline()):
            rows.append(Row(*orjson.loads(line)))
            size += len(line)
        return rows
