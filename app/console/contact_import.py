"""Importing contacts from a CSV file: columns are matched with attributes, and the rows are checked, before anything is
written (docs/console.md#importing-contacts).

The check and the writing are those of `contacts import`; a file is so small here that one transaction writes all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from app.console.uploads import MOST_ROWS, CheckedUpload, opened, rows_of
from app.contacts.cells import READ_ONLY, column_key, columns_of
from app.contacts.import_check import CheckedRow, CheckedRows, Fault, FileCheck
from app.contacts.imports import import_at_once
from app.contacts.upsert import Upserted, identifier_of
from app.csv_files.reader import FileRow, find_format, from_cell, reading
from app.db.database import Database, Transaction
from app.db.write_turns import WriteTurns
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.lists.fields import ListSpec

OTHER_WAY = f"`{COMMAND_LINE} contacts import FILE.csv`"
"""What imports more than fits in here."""
LEFT_OUT = ""
"""In place of an attribute: the column is not read."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the attribute that it is, or `LEFT_OUT`, and its cell in the first row."""

    name: str
    key: str
    example: str


@dataclass(slots=True)
class Checked(CheckedUpload):
    """What a file says: its columns, whether its empty cells clear fields, its valid rows, and its faults. `problem`
    says why nothing of it can be imported, if so."""

    columns: Sequence[Column] = ()
    empty_clears: bool = False
    rows: list[CheckedRow] = field(default_factory=list)
    problem: str | None = None

    def add(self, row: FileRow, faults: Sequence[Fault]) -> None:
        """A row that cannot be imported."""
        self.add_fault(row.line, "; ".join(fault.text for fault in faults))

    @property
    def keys(self) -> list[str]:
        """The attribute of each column."""
        return [column.key for column in self.columns]

    @property
    def contacts(self) -> list[Mapping[str, Any]]:
        """What the valid rows write."""
        return [row.attributes for row in self.rows]


def cell_of(attributes: Mapping[str, Any], key: str) -> str:
    """What a row writes to an attribute; nothing for an empty cell."""
    name, _, part = key.partition(".")
    value = attributes.get(name, {}).get(part) if part else attributes.get(name)
    return "" if value is None else str(value)


def attributes_of(contact_list: ListSpec) -> list[str]:
    """What a column may be."""
    missing = [kind for kind in ("email", "mobile") if not getattr(contact_list, f"has_{kind}")]
    return [key for key in columns_of(contact_list) if key not in (*READ_ONLY, *missing)]


@dataclass(frozen=True, slots=True)
class Choices:
    """What a form says about a file: the attributes of its columns, None for those that their names say, and whether
    empty cells clear fields."""

    columns: Sequence[str] | None = None
    empty_clears: bool = False


def check_file(database: Database, contact_list: ListSpec, content: bytes, choices: Choices) -> Checked:
    """Reads the file as the form says. Stores nothing. Raises `too_long`, and `invalid_string` for one that is no such
    file."""
    identifier_of(contact_list)
    with opened(content, OTHER_WAY) as file:
        return _checked(database, contact_list, file, choices)


def _checked(database: Database, contact_list: ListSpec, file: BinaryIO, choices: Choices) -> Checked:
    known = attributes_of(contact_list)
    form = find_format(file, lambda name: _named(contact_list, known, name) != LEFT_OUT)
    with reading(file, form) as reader:
        first = rows_of(reader, OTHER_WAY)[0]
        chosen = choices.columns
        keys = _guessed(contact_list, known, reader.head) if chosen is None else _read(known, reader.head, chosen)
    cells = [*first.cells, *[""] * len(keys)]
    columns = [Column(*one) for one in zip(reader.head, keys, map(from_cell, cells), strict=False)]
    checked = Checked(columns=columns, empty_clears=choices.empty_clears)
    checked.problem = _problem(contact_list, keys)
    if checked.problem is None:
        with reading(file, form) as reader, CheckedRows() as valid:
            attributes = [key or None for key in keys]
            check = FileCheck(database, contact_list, attributes, valid, checked, empty_clears=choices.empty_clears)
            check.run(reader, lambda: None, done=0)
            while some := valid.take(MOST_ROWS):
                checked.rows += some
    return checked


def _named(contact_list: ListSpec, known: Sequence[str], name: str) -> str:
    key = column_key(contact_list, name)
    return LEFT_OUT if key is None or key not in known else key


def _guessed(contact_list: ListSpec, known: Sequence[str], head: Sequence[str]) -> list[str]:
    """By their names; of two columns that are the same attribute the first one."""
    keys = [_named(contact_list, known, name) for name in head]
    return [key if keys.index(key) == place else LEFT_OUT for place, key in enumerate(keys)]


def _read(known: Sequence[str], head: Sequence[str], chosen: Sequence[str]) -> list[str]:
    if len(chosen) != len(head) or not {*chosen} <= {*known, LEFT_OUT}:
        raise ServiceError("invalid_string", field="column", detail="Choose an attribute of the list for each column.")
    return list(chosen)


def _problem(contact_list: ListSpec, keys: Sequence[str]) -> str | None:
    twice = next((key for key in keys if key != LEFT_OUT and keys.count(key) > 1), None)
    if twice is not None:
        return f"Two columns are {twice}: leave one of them out."
    if contact_list.identifier not in keys:
        return f"No column is {contact_list.identifier}, by which the contacts of this list are found."
    return None


def try_out(database: Database, contact_list: ListSpec, checked: Checked) -> Upserted:
    """What the valid rows would do: does it, and takes it back. Rows that the contacts refuse become the problem of the
    file."""

    def work(transaction: Transaction) -> Upserted:
        return import_at_once(transaction, contact_list, checked.contacts)

    try:
        return WriteTurns(database).take(len(checked.rows), work, keep=False)
    except ServiceError as error:
        first = error.errors[0]
        checked.problem = f"Line {checked.rows[first.index or 0].line}: {first.developer_message}"
        return Upserted()
