"""CSV files that are uploaded: how much of one is read, and what is said of its faulty rows
(docs/console.md#importing-contacts)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.csv_files.reader import CsvReader, FileRow, UnreadableFile
from app.errors import ServiceError

MOST_BYTES = 1024 * 1024
MOST_ROWS = 5000
MOST_FAULTS = 20


@dataclass(slots=True)
class CheckedUpload:
    """What is wrong with a file: the first of its faults by line, and how many of its rows are faulty."""

    faults: list[tuple[int, str]] = field(default_factory=list)
    faulty: int = 0

    def add_fault(self, line: int, text: str) -> None:
        """A row that cannot be imported."""
        self.faulty += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append((line, text))


@contextmanager
def opened(content: bytes, other_way: str) -> Iterator[io.BytesIO]:
    """The file. Raises `too_long` for a large one, which can be imported in another way, and `invalid_string` for one
    that cannot be read."""
    if len(content) > MOST_BYTES:
        detail = f"A file has at most {MOST_BYTES:,} bytes here; {other_way} reads longer ones."
        raise ServiceError("too_long", field="file", detail=detail)
    try:
        yield io.BytesIO(content)
    except UnreadableFile as error:
        raise ServiceError("invalid_string", field="file", detail=f"{error}.") from None


def rows_of(reader: CsvReader, other_way: str) -> list[FileRow]:
    """All rows, of which there are some and not too many. Raises `UnreadableFile`."""
    rows: list[FileRow] = []
    for row in reader.rows():
        if len(rows) == MOST_ROWS:
            raise UnreadableFile(f"the file has more than {MOST_ROWS:,} rows; divide it, or use {other_way}")
        rows.append(row)
    if not rows:
        raise UnreadableFile("the file has no row below the names of its columns")
    return rows
