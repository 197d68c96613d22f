"""The rows that an import leaves out, in a file of their own (docs/cli.md#faulty-rows)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from app.cli.csv_files import csv_writer
from app.contacts.import_check import Fault
from app.csv_files.reader import CsvReader, FileFormat, FileRow

OWN_COLUMNS = ("_line", "_reason")


class Rejects:
    """Writes rows as they were, behind the line where they stood and what is wrong with them: a row that is too long
    keeps its place that way."""

    def __init__(self, writer: Any, reader: CsvReader) -> None:
        self._writer, self._reader = writer, reader
        self._own = frozenset(place for place, name in enumerate(reader.head) if name.strip() in OWN_COLUMNS)
        writer.writerow([*OWN_COLUMNS, *self._others(reader.head)])

    def add(self, row: FileRow, faults: Sequence[Fault]) -> None:
        """Writes a row; one that is not CSV by its lines, each with its cells if it can be read by itself."""
        reason = "; ".join(fault.text for fault in faults)
        if row.cells:
            self._writer.writerow([row.line, reason, *self._others(row.cells)])
            return
        for place, text in enumerate(row.texts):
            if cells := self._others(self._reader.parsed_alone(text)):
                said = reason if place == 0 else f"read as part of line {row.line}"
                self._writer.writerow([row.line + place, said, *cells])

    def _others(self, cells: Sequence[str]) -> list[str]:
        """Without the columns that an earlier import has added."""
        return [cell for place, cell in enumerate(cells) if place not in self._own]


class NoRejects:
    """In place of `Rejects` where no file was asked for."""

    def add(self, row: FileRow, faults: Sequence[Fault]) -> None:
        """Does nothing."""


@contextmanager
def rejects_of(file: str | None, form: FileFormat, reader: CsvReader) -> Iterator[Rejects | NoRejects]:
    """The file of rejected rows, which can be read like the one that they come from."""
    if file is None:
        yield NoRejects()
        return
    # A reason may quote what the encoding lacks; the cells come from a file that has it.
    with csv_writer(file, form, quoting=csv.QUOTE_MINIMAL, errors="backslashreplace") as writer:
        yield Rejects(writer, reader)
