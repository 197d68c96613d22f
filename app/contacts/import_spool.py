"""The valid rows of a file between their check and their import, in a temporary file: nothing is imported before the
last row is checked, and memory does not grow with the file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

import orjson

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
