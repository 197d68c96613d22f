"""Checks all rows of a file before the first is imported, in one pass (docs/cli.md#faulty-rows)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import orjson

from app.addresses import mobile_as_stored
from app.contacts.cells import FLAGS, SUBSCRIBED, contact_from_cells
from app.contacts.imports import resets_double_opt_in
from app.contacts.rules import address_errors
from app.contacts.upsert import identifier_of, key_of, unidentified
from app.csv_files.reader import CsvReader, FileRow, from_cell
from app.db.database import Database
from app.db.json_fields import KeyCounts
from app.errors import FieldError
from app.lists.fields import ListSpec

# What is wrong with the rows of a file, grouped by kind. Bounded: a count and some examples for each kind.

MOST_EXAMPLES = 3
LONGEST_VALUE = 60
"""Characters of a value that are shown."""


class Fault(NamedTuple):
    """One thing that is wrong with a row: its kind, in words, and the cell that is wrong, if it is a single one."""

    kind: tuple[str, str | None]
    text: str
    value: str | None = None

    @classmethod
    def of(cls, error: FieldError, value: str | None) -> Fault:
        """The fault of an attribute."""
        return cls((error.code, error.field), error.developer_message, value)


class _Example(NamedTuple):
    line: int
    fault: Fault

    @property
    def shown(self) -> str:
        """The example in a group, whose text is that of its first one."""
        value = self.fault.value
        return f"line {self.line}: {self.fault.text if value is None else shortened(value)}"


@dataclass(slots=True)
class _Group:
    count: int = 0
    examples: list[_Example] = field(default_factory=list)


class FaultReport:
    """The faults of a file."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows with faults."""
        self._groups: dict[tuple[str, str | None], _Group] = {}

    def add(self, line: int, faults: Sequence[Fault]) -> None:
        """Adds those of one row."""
        self.rows += 1
        for fault in faults:
            group = self._groups.setdefault(fault.kind, _Group())
            group.count += 1
            if len(group.examples) < MOST_EXAMPLES:
                group.examples.append(_Example(line, fault))

    def refusal(self, rows: int) -> str:
        """Why a file with so many rows was not imported: one line for a single fault."""
        if self.rows == 1 and len(self._groups) == 1:
            ((line, fault),) = next(iter(self._groups.values())).examples
            return f"line {line}: {fault.text}"
        return "\n  ".join([f"nothing was imported, {self.rows} of {rows} rows are faulty:", *self.lines()])

    def lines(self) -> Iterator[str]:
        """Each kind with its number and examples, the most frequent first."""
        for group in sorted(self._groups.values(), key=lambda group: -group.count):
            yield f"{group.count} {'row' if group.count == 1 else 'rows'}: {group.examples[0].fault.text}"
            yield from (f"  {example.shown}" for example in group.examples)


def shortened(text: str) -> str:
    """The beginning of a text of a file, quoted."""
    return repr(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…")


# The valid rows of a file between their check and their import, in a temporary file: nothing is imported before the
# last row is checked, and memory does not grow with the file.

MOST_BYTES = 4 * 1024 * 1024
"""Of the rows that are taken at once."""


class CheckedRow(NamedTuple):
    """A row whose attributes are valid: its place among all rows of the file, its line, and the number of rows before
    it with the same identifier."""

    place: int
    line: int
    earlier: int
    attributes: Mapping[str, Any]


class CheckedRows:
    """Written once, then taken in their order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the block
        self.count = 0

    def add(self, row: CheckedRow) -> None:
        """Appends a row."""
        self._file.write(orjson.dumps(tuple(row)) + b"\n")
        self.count += 1

    def rewind(self) -> None:
        """Goes to the first row, once all are written."""
        self._file.seek(0)

    def take(self, most: int) -> list[CheckedRow]:
        """The next rows; none at the end."""
        rows: list[CheckedRow] = []
        size = 0
        while len(rows) < most and size < MOST_BYTES and (line := self._file.readline()):
            rows.append(CheckedRow(*orjson.loads(line)))
            size += len(line)
        return rows

    def __enter__(self) -> CheckedRows:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()


BATCH_SIZE = 1000
MOST_CHARACTERS = 4 * 1024 * 1024
"""Of the rows of a batch."""
NAMELESS = ""
"""The key of a column without a name, whose cells must be empty."""
NOT_CLEARED = (*FLAGS, *SUBSCRIBED)
"""What has no value that an empty cell could stand for."""


class FaultyRows(Protocol):
    """Where the rows go that are left out."""

    def add(self, row: FileRow, faults: Sequence[Fault]) -> None:
        """Takes a row with what is wrong with it."""


@dataclass(slots=True)
class _Row:
    """A row of a batch, and what became of it so far."""

    place: int
    source: FileRow
    attributes: dict[str, Any]
    faults: list[Fault]
    earlier: int = 0


class FileCheck:
    """The check of one file. `rows` counts all its rows; `valid` holds those without a fault."""

    def __init__(
        self,
        database: Database,
        contact_list: ListSpec,
        keys: Sequence[str | None],
        valid: CheckedRows,
        rejects: FaultyRows,
        *,
        empty_clears: bool,
    ) -> None:
        self.rows = 0
        self.report = FaultReport()
        self._database, self._list, self._keys = database, contact_list, keys
        self._valid, self._rejects, self._empty_clears = valid, rejects, empty_clears
        self._done = 0
        self._identifier = identifier_of(contact_list)

    def run(self, reader: CsvReader, on_batch: Callable[[], None], *, done: int) -> None:
        """Reads all rows. Those of which `done` is the number were imported before, so that the database says nothing
        about them any more."""
        self._done = done
        with KeyCounts() as counts:
            batch: list[_Row] = []
            characters = 0
            for source in reader.rows():
                batch.append(self._read(source))
                characters += sum(map(len, source.cells))
                if len(batch) == BATCH_SIZE or characters > MOST_CHARACTERS:
                    self._settle(batch, counts)
                    on_batch()
                    batch, characters = [], 0
            self._settle(batch, counts)
            on_batch()
        self._valid.rewind()

    def _read(self, source: FileRow) -> _Row:
        """The row with the faults that it has by itself."""
        row = _Row(self.rows, source, {}, [])
        self.rows += 1
        if source.problem is not None:
            row.faults.append(Fault(("cells" if source.cells else "csv", None), source.problem))
        else:
            self._read_cells(row)
        return row

    def _read_cells(self, row: _Row) -> None:
        cells: dict[str, str] = {}
        for key, text in zip(self._keys, row.source.cells, strict=True):
            if key == NAMELESS and text:
                row.faults.append(Fault(("nameless", None), "a column without a name must be empty", text))
            elif key and (text or key not in NOT_CLEARED):
                cells[key] = mobile_as_stored(from_cell(text)) if key == "mobile" else from_cell(text)
        row.attributes, errors = contact_from_cells(self._list, cells, clear=self._empty_clears)
        errors += address_errors(self._list, [row.attributes], bulk=False)
        if not cells.get(self._identifier):
            errors.append(unidentified(self._identifier))
        row.faults += [Fault.of(error, cells.get(error.field or "")) for error in errors]

    def _settle(self, batch: Sequence[_Row], counts: KeyCounts) -> None:
        """Finds the faults that rows have beside others, and in view of the contacts that exist."""
        for row in batch:
            if not row.faults:
                self._count(row, counts)
        self._compare([row for row in batch if not row.faults and row.place >= self._done])
        for row in batch:
            if row.faults:
                self.report.add(row.source.line, row.faults)
                self._rejects.add(row.source, row.faults)
            else:
                self._valid.add(CheckedRow(row.place, row.source.line, row.earlier, row.attributes))

    def _count(self, row: _Row, counts: KeyCounts) -> None:
        row.earlier, first = counts.add(key_of(self._identifier, row.attributes), row.source.line)
        if row.earlier and not self._list.allow_duplicates:
            text = f"{self._identifier}: line {first} has it already."
            row.faults.append(Fault(("conflict", self._identifier), text, row.attributes[self._identifier]))

    def _compare(self, rows: Sequence[_Row]) -> None:
        """Writes that the contacts refuse, whatever the file says."""
        if not any(row.attributes.get("double_opt_in") is False for row in rows):
            return
        attributes, earlier = [row.attributes for row in rows], [row.earlier for row in rows]
        with self._database.read() as session:
            refused = resets_double_opt_in(session, self._list, attributes, earlier)
        for index in refused:
            rows[index].faults.append(Fault.of(FieldError("cannot_reset_double_opt_in", "double_opt_in"), None))
