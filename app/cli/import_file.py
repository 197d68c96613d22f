"""The import of one file: how it is read, the check of its rows, and what is said about it (docs/cli.md#csv-files)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import orjson
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cli.base import Failure, WrongValue, echo, print_done
from app.cli.csv_files import STANDARD, csv_writer
from app.cli.progress import progress
from app.clock import timestamp
from app.contacts.cells import column_key, columns_of
from app.contacts.import_check import NAMELESS, CheckedRow, CheckedRows, Fault, FileCheck, shortened
from app.contacts.imports import (
    Chunk,
    ImportPosition,
    OvertakenImport,
    begin_import,
    end_import,
    find_import,
    import_chunk,
    upsert_chunk,
)
from app.csv_files.reader import (
    DELIMITERS,
    UTF_8,
    CsvReader,
    FileFormat,
    FileRow,
    delimiter_name,
    digest_of,
    find_format,
    reading,
    version_of,
)
from app.db.database import Database
from app.db.models import Automation
from app.db.write_turns import WriteTurns
from app.errors import ServiceError
from app.http.context import services
from app.infrastructure.digests import keyed_digests
from app.lists.fields import ListSpec

# The rows that an import leaves out, in a file of their own (docs/cli.md#faulty-rows).

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


# Writes the checked rows of an import, in chunks that commit by themselves (docs/cli.md#while-the-service-runs).

RETRIES = 3


class ImportWriting:
    """One run over the valid rows from a position on, which moves with each chunk."""

    def __init__(
        self, database: Database, contact_list: ListSpec, rows: CheckedRows, position: ImportPosition | None
    ) -> None:
        self.position = position or ImportPosition()
        self._database, self._list, self._rows = database, contact_list, rows
        self._is_begun = position is not None
        self._turns = WriteTurns(database)

    def run(self, digests: Sequence[str], options: str) -> None:
        """Imports the rows."""
        goes_on = self.position if self._is_begun else None
        self.position = self._database.transact(
            lambda one: begin_import(one, self._list, digests, options, rows=self._rows.count, position=goes_on)
        )
        with self._explained():
            for chunk in self._chunks():
                self.position = self._write(chunk)
            self._database.transact(partial(end_import, position=self.position))

    def try_out(self) -> None:
        """Does the same, and rolls each chunk back."""
        for chunk in self._chunks():
            work = partial(upsert_chunk, contact_list=self._list, chunk=chunk)
            upserted = self._turns.take(len(chunk.contacts), work, keep=False)
            self.position = self.position.after(upserted, chunk.rows_done)

    def _write(self, chunk: Chunk) -> ImportPosition:
        """Imports the chunk. A contact that was created by somebody else at the same moment is updated instead."""
        work = partial(import_chunk, contact_list=self._list, position=self.position, chunk=chunk)
        for _ in range(RETRIES):
            try:
                return self._turns.take(len(chunk.contacts), work)
            except ServiceError as error:
                if error.code != "conflict":
                    raise
        return self._turns.take(len(chunk.contacts), work)

    def _chunks(self) -> Iterator[Chunk]:
        """The rows behind the position, as many at a time as the next transaction should write."""
        with progress("Importing", self._rows.count) as advance:
            while rows := self._rows.take(self._turns.size):
                left = [row for row in rows if row.place >= self.position.rows_done]
                if left:
                    self._current: Sequence[CheckedRow] = left
                    contacts, earlier = [row.attributes for row in left], [row.earlier for row in left]
                    yield Chunk(contacts, earlier, left[-1].place + 1)
                advance(len(rows))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Says of what ends the import early how it goes on."""
        try:
            yield
        except OvertakenImport:
            raise WrongValue("another process imports this file, or the list was deleted") from None
        except ServiceError as error:
            faults = (f"line {self._current[one.index or 0].line}: {one.developer_message}" for one in error.errors)
            raise WrongValue("\n  ".join([f"{self._done}, but then something changed:", *faults])) from None
        except KeyboardInterrupt:
            raise Failure(f"interrupted: {self._done}") from None
        except SQLAlchemyError:
            echo(self._done, err=True)
            raise

    @property
    def _done(self) -> str:
        return f"{self.position.rows_done} rows are done, the same command with --resume goes on behind them"


def listeners_of(session: Session, contact_list: ListSpec) -> list[str]:
    """The names of the automations that contacts of the list may enter."""
    listening = Automation.account_id == contact_list.account_id, Automation.list_id == contact_list.id
    return list(session.scalars(select(Automation.name).where(*listening).order_by(Automation.name)))


# Which attribute each column of a file is: by its name, or by `--map` (docs/cli.md#columns).

MOST_NAMED = 20
"""Columns that an error message lists."""
ABOUT_ROWS = "_"
"""How the names of columns begin that say something about their rows, such as those of a file with rejected rows."""
Mapped = Mapping[str, str | None]
"""Name of a column -> the attribute, None for a column that is left out."""


def parse_mapping(contact_list: ListSpec, given: Iterable[str]) -> dict[str, str | None]:
    """The arguments `COLUMN=KEY`; one without a key leaves the column out. Raises `WrongValue`."""
    mapping: dict[str, str | None] = {}
    for one in given:
        name, equals, target = one.rpartition("=")
        key = column_key(contact_list, target) if target.strip() else None
        name = name.strip()
        if not equals or not name:
            raise WrongValue(f"--map {one!r}: must be COLUMN=KEY, as in 'E-Mail=email'")
        if key is None and target.strip():
            raise WrongValue(f"--map {one!r}: {target!r} is none of {', '.join(columns_of(contact_list))}")
        if name in mapping:
            raise WrongValue(f"--map {one!r}: the column is mapped twice")
        mapping[name] = key
    return mapping


def is_column(contact_list: ListSpec, mapping: Mapped) -> Callable[[str], bool]:
    """Whether a name in the head of a file is one that can be read."""
    return lambda name: name.strip() in mapping or column_key(contact_list, name) is not None


def keys_of(contact_list: ListSpec, head: Sequence[str], line: int, mapping: Mapped) -> list[str | None]:
    """The attribute of each column, None for one that is left out. Raises `WrongValue`."""
    names = [name.strip() for name in head]
    missing = [name for name in mapping if name not in names]
    if missing:
        raise WrongValue(f"--map: the file has no column {_listed(missing)}; its columns are {_listed(names)}")
    unknown: list[str] = []
    keys: list[str | None] = []
    for name in names:
        key = mapping[name] if name in mapping else column_key(contact_list, name)
        if not name:
            key = NAMELESS
        elif key is None and name not in mapping and not name.startswith(ABOUT_ROWS):
            unknown.append(name)
        elif key is not None and key in keys:
            raise WrongValue(f"line {line}: two columns are {key}")
        keys.append(key)
    if unknown:
        noun = "column" if len(unknown) == 1 else "columns"
        raise WrongValue(
            f"line {line}: {noun} {_listed(unknown)} {'is' if len(unknown) == 1 else 'are'} none of "
            f"{', '.join(columns_of(contact_list))}. --map {shortened(f'{unknown[0]}=KEY')} names the attribute of a "
            f"column, --map {shortened(f'{unknown[0]}=')} leaves it out"
        )
    return keys


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(shortened, names[:MOST_NAMED]))
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


PLAIN = (UTF_8, "utf-8-sig")
"""Encodings that go without saying."""
FORGOTTEN = "left out, because they were forgotten"
LEFT_OUT = {FORGOTTEN: "left_out"}
"""What is said of a count -> its name in JSON, where that is another."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How a file shall be imported, and the result be printed."""

    delimiter: str | None
    encoding: str | None
    empty_clears: bool
    dry_run: bool
    skip_faulty: bool
    rejects: str | None
    resume: bool
    as_json: bool


class FileImport:
    """One import into a list."""

    def __init__(self, database: Database, contact_list: ListSpec, mapping: Mapped, options: ImportOptions) -> None:
        self._database, self._list, self._mapping, self._options = database, contact_list, mapping, options

    def run(self, source: BinaryIO) -> None:
        """Reads the file, imports its rows unless it is a dry run, and prints what was done."""
        version, digests = version_of(source), _digests(source)
        form = self._format(source)
        clears = ["empty_clears"] if self._options.empty_clears else []
        read_as = orjson.dumps([*form, self._mapping, *clears], option=orjson.OPT_SORT_KEYS).decode()
        position = self._position(digests, read_as)
        if position is not None and position.end_time is not None:
            self._print_end(position)
            return
        with CheckedRows() as valid:
            check = self._checked(source, form, valid, position)
            if version_of(source) != version:
                raise WrongValue("the file was changed while it was read")
            writing = ImportWriting(self._database, self._list, valid, position)
            if self._options.dry_run:
                writing.try_out()
            else:
                writing.run(digests, read_as)
            self._print(check, valid.count, writing.position)

    def _format(self, source: BinaryIO) -> FileFormat:
        """The encoding and the delimiter; says what was found where it is not the usual."""
        options = self._options
        known = is_column(self._list, self._mapping)
        form = find_format(source, known, encoding=options.encoding, delimiter=options.delimiter)
        encoding, delimiter = form
        is_unusual = options.encoding is None and encoding not in PLAIN
        if is_unusual or (options.delimiter is None and delimiter != DELIMITERS["comma"]):
            echo(f"read as {encoding} with {delimiter_name(delimiter)} (otherwise: --encoding, --delimiter)", err=True)
        return form

    def _position(self, digests: Sequence[str], read_as: str) -> ImportPosition | None:
        """Where the import goes on; None for the first row."""
        with self._database.read() as session:
            found = find_import(session, self._list, digests)
        if not self._options.resume:
            if found is not None and found.end_time is None and found.rows_done and not self._options.dry_run:
                echo(f"begins anew; --resume would go on behind the first {found.rows_done} rows", err=True)
            return None
        if found is None:
            echo("no import of this file into this list was interrupted: begins with the first row", err=True)
        elif found.options != read_as:
            raise WrongValue(
                "the interrupted import read this file otherwise: give it the same --map, --delimiter, --encoding and "
                "--empty-clears, or begin anew without --resume"
            )
        return found

    def _checked(
        self, source: BinaryIO, form: FileFormat, valid: CheckedRows, position: ImportPosition | None
    ) -> FileCheck:
        """Checks all rows. Raises `WrongValue` if one is faulty, unless those are to be left out."""
        size, _ = version_of(source)
        read = 0
        with reading(source, form) as reader, progress("Reading", size) as advance:
            keys = keys_of(self._list, reader.head, reader.head_line, self._mapping)

            def on_batch() -> None:
                nonlocal read
                before, read = read, source.tell()
                advance(read - before)

            with rejects_of(self._options.rejects, form, reader) as rejects:
                check = FileCheck(
                    self._database, self._list, keys, valid, rejects, empty_clears=self._options.empty_clears
                )
                check.run(reader, on_batch, done=0 if position is None else position.rows_done)
        if check.report.rows and not self._options.skip_faulty:
            raise WrongValue(check.report.refusal(check.rows))
        return check

    def _print_end(self, position: ImportPosition) -> None:
        """Says that there is nothing to resume."""
        left_out = {LEFT_OUT[FORGOTTEN]: position.left_out} if position.left_out else {}
        facts = {"created": position.created, "updated": position.updated, **left_out, "end_time": position.end_time}
        said = f"this file was imported at {timestamp(position.end_time)}" if position.end_time else ""
        print_done(said, facts, self._options.as_json)

    def _print(self, check: FileCheck, valid: int, position: ImportPosition) -> None:
        for line in check.report.lines():
            echo(line, err=True)
        options = self._options
        counts = {
            "created": position.created,
            "updated": position.updated,
            "unchanged": valid - position.created - position.updated - position.left_out,
            **({FORGOTTEN: position.left_out} if position.left_out else {}),
            "rejected": check.report.rows,
        }
        shown = ", ".join(
            f"{count} {name}" for name, count in counts.items() if name != "rejected" or options.skip_faulty
        )
        facts: dict[str, Any] = {LEFT_OUT.get(name, name): count for name, count in counts.items()}
        facts["dry_run"] = options.dry_run
        if options.dry_run:
            with self._database.read() as session:
                facts["automations"] = listeners_of(session, self._list)
            entered = f"; automations listen to this list: {', '.join(facts['automations'])}"
            shown = f"would be: {shown}. Nothing was stored{entered if facts['automations'] else ''}"
        print_done(shown, facts, options.as_json, err=options.rejects == STANDARD)


def _digests(source: BinaryIO) -> Sequence[str]:
    """Those of the file's contents under all keys. They are keyed because a file may be so short that whoever is in it
    could be guessed from a hash."""
    return keyed_digests(services().settings.secret_keys, digest_of(source))
