"""CSV files that are uploaded: what one says, and what it would do, before anything is written
(docs/console-contents.md#importing-contacts)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from app.contacts.upsert import UpsertCounts
from app.csv_files.reader import CsvReader, FileRow, UnreadableFile, find_format, from_cell, reading
from app.db.database import Database
from app.errors import ServiceError
from app.imports.importer import check
from app.imports.kinds import Kind
from app.imports.rows import FaultReport, Row

MAX_BYTES = 1024 * 1024
MAX_ROWS = 5000
OMITTED_COLUMN = ""
"""Stands for the key of a column that is not read."""


class Column(NamedTuple):
    """A column: its name, what it is or `OMITTED_COLUMN`, and its cell in the first row."""

    name: str
    key: str
    example: str


@dataclass(slots=True)
class Upload:
    """What a file says: its columns, its valid rows, and its faults. `problem` says why nothing of it can be imported,
    if so."""

    kind: Kind
    content: bytes
    columns: Sequence[Column]
    problem: str | None
    rows: list[Row] = field(default_factory=list)
    faults: FaultReport = field(default_factory=FaultReport)

    @property
    def preview_facts(self) -> list[str]:
        """What a preview shows of it: what the columns are, whether empty cells clear fields, and the numbers of valid
        and faulty rows."""
        clears = str(self.kind.empty_clears).lower()
        return [*(column.key for column in self.columns), clears, str(len(self.rows)), str(self.faults.faulty)]

    def try_out(self, database: Database) -> UpsertCounts:
        """What the valid rows would do. If something refuses them, that is the problem of the file if it has none."""
        try:
            return self.kind.try_out(database, self.rows) if self.rows else UpsertCounts()
        except ServiceError as error:
            first = error.errors[0]
            self.problem = self.problem or f"Line {self.rows[first.index or 0].line}: {first.developer_message}"
            return UpsertCounts()


def read_upload(
    database: Database, kind: Kind, content: bytes, other_way: str, chosen: Sequence[str] | None = None
) -> Upload:
    """Reads the file, whose columns are what was chosen, or for None what their names say. Stores nothing. Raises
    `too_long` for a large file, which can be imported in another way, and `invalid_string` for one that is no CSV."""
    if len(content) > MAX_BYTES:
        detail = f"The file has more than {MAX_BYTES:,} bytes. Import it with {other_way}."
        raise ServiceError("too_long", field="file", detail=detail)
    file = io.BytesIO(content)
    try:
        with reading(file, find_format(file, lambda name: _key(kind, name) != OMITTED_COLUMN)) as reader:
            sources = _rows_of(reader, other_way)
    except UnreadableFile as error:
        raise ServiceError("invalid_string", field="file", detail=f"{error}.") from None
    keys = _guessed_keys(kind, reader.head) if chosen is None else _checked_keys(kind, reader.head, chosen)
    cells = [*map(from_cell, sources[0].cells), *[""] * len(keys)]
    columns = [Column(*column) for column in zip(reader.head, keys, cells, strict=False)]
    upload = Upload(kind, content, columns, _problem(kind, keys))
    if upload.problem is None:
        upload.faults = check(database, kind, [key or None for key in keys], sources, upload.rows.append)
    return upload


def _rows_of(reader: CsvReader, other_way: str) -> list[FileRow]:
    """All rows, of which there are some and not too many. Raises `UnreadableFile`."""
    rows = list(islice(reader.rows(), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise UnreadableFile(f"the file has more than {MAX_ROWS:,} rows; split it or import it with {other_way}")
    if not rows:
        raise UnreadableFile("the file has no rows after the header")
    return rows


def _key(kind: Kind, name: str) -> str:
    key = kind.column(name)
    return key if key is not None and key in kind.choices else OMITTED_COLUMN


def _guessed_keys(kind: Kind, head: Sequence[str]) -> list[str]:
    """The keys that the names of columns say; of two columns with the same key the first one has it."""
    keys = [_key(kind, name) for name in head]
    return [key if keys.index(key) == place else OMITTED_COLUMN for place, key in enumerate(keys)]


def _checked_keys(kind: Kind, head: Sequence[str], chosen: Sequence[str]) -> Sequence[str]:
    if len(chosen) != len(head) or not {*chosen} <= {*kind.choices, OMITTED_COLUMN}:
        raise ServiceError("invalid_string", field="column", detail="Choose an attribute of the list for each column.")
    return chosen


def _problem(kind: Kind, keys: Sequence[str]) -> str | None:
    twice = next((key for key in keys if key != OMITTED_COLUMN and keys.count(key) > 1), None)
    if twice is not None:
        return f"Two columns have the attribute {twice}. Leave one of them out."
    return kind.missing(keys)
