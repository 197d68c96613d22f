"""`flask contacts import`: contacts from a CSV file (docs/csv.md)."""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson
from flask.cli import with_appcontext
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cli.base import (
    Command,
    Failure,
    WrongValue,
    account_option,
    echo,
    json_option,
    list_option,
    need_installation_key,
    print_done,
)
from app.cli.csv_files import STANDARD_STREAM, csv_source, csv_writer, format_options
from app.cli.find_contacts import find_list
from app.cli.progress import progress
from app.clock import timestamp
from app.contacts.cells import column_key, columns_of
from app.csv_files.reader import (
    BLOCK_BYTES,
    DELIMITERS,
    UTF_8,
    CsvReader,
    FileFormat,
    delimiter_name,
    find_format,
    reading,
)
from app.db.database import Database
from app.db.models import Automation, ContactImport
from app.errors import ServiceError
from app.http.context import services
from app.imports.importer import (
    NAMELESS_COLUMN,
    OvertakenImport,
    SlicedImport,
    begin_import,
    check,
    find_import,
    new_import,
)
from app.imports.kinds import ContactsOfList
from app.imports.rows import CheckedRows, FaultReport, Row, shortened
from app.infrastructure.digests import keyed_digests
from app.lists.fields import ListSpec

# Which attribute each column of a file is: by its name, or by `--map` (docs/csv.md#columns).

MAX_LISTED_NAMES = 20
"""Columns that an error message lists."""
ROW_NOTE_PREFIX = "_"
"""How the names of columns begin that say something about their rows, such as those of a file with rejected rows."""
ColumnMapping = Mapping[str, str | None]
"""Name of a column -> the attribute, None for a column that is left out."""


def parse_mapping(contact_list: ListSpec, given: Sequence[str]) -> ColumnMapping:
    """The arguments `COLUMN=KEY`; one without a key leaves the column out. Raises `WrongValue`."""
    mapping: dict[str, str | None] = {}
    for argument in given:
        name, equals, target = argument.rpartition("=")
        key = column_key(contact_list, target) if target.strip() else None
        name = name.strip()
        if not equals or not name:
            raise WrongValue(f"--map {argument!r}: must be COLUMN=KEY, as in 'E-Mail=email'")
        if key is None and target.strip():
            raise WrongValue(f"--map {argument!r}: {target!r} is not one of {', '.join(columns_of(contact_list))}")
        if name in mapping:
            raise WrongValue(f"--map {argument!r}: the column is mapped twice")
        mapping[name] = key
    return mapping


def keys_of(contact_list: ListSpec, head: Sequence[str], line: int, mapping: ColumnMapping) -> list[str | None]:
    """The attribute of each column, None for one that is left out. Raises `WrongValue`."""
    names = [name.strip() for name in head]
    missing = [name for name in mapping if name not in names]
    if missing:
        raise WrongValue(f"--map: the file has no column {_listing(missing)}; its columns are {_listing(names)}")
    unknown: list[str] = []
    keys: list[str | None] = []
    for name in names:
        key = mapping[name] if name in mapping else column_key(contact_list, name)
        if not name:
            key = NAMELESS_COLUMN
        elif key is None and name not in mapping and not name.startswith(ROW_NOTE_PREFIX):
            unknown.append(name)
        elif key is not None and key in keys:
            raise WrongValue(f"line {line}: two columns are {key}")
        keys.append(key)
    if unknown:
        are = "column {} is" if len(unknown) == 1 else "columns {} are"
        raise WrongValue(
            f"line {line}: {are.format(_listing(unknown))} not among {', '.join(columns_of(contact_list))}. "
            f"--map {shortened(f'{unknown[0]}=KEY')} names the attribute of a column, "
            f"--map {shortened(f'{unknown[0]}=')} leaves it out"
        )
    return keys


def _listing(names: Sequence[str]) -> str:
    listing = ", ".join(map(shortened, names[:MAX_LISTED_NAMES]))
    return f"{listing} and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else listing


# The rows that an import leaves out, in a file of their own (docs/csv.md#faulty-rows).

REJECT_COLUMNS = ("_line", "_reason")
"""Columns that a file of rejected rows has before those of the import, so that a row that is too long keeps its
place."""


@contextmanager
def rejects_of(file: str | None, form: FileFormat, reader: CsvReader) -> Iterator[Callable[[Row], None]]:
    """What takes the rejected rows: a file, if one is named, which can be read like the one that they come from."""
    if file is None:
        yield lambda _: None
        return
    added_places = {place for place, name in enumerate(reader.head) if name.strip() in REJECT_COLUMNS}

    def others(cells: Sequence[str]) -> list[str]:
        """The cells without those of columns that an earlier import has added."""
        return [cell for place, cell in enumerate(cells) if place not in added_places]

    def add(row: Row) -> None:
        """Writes a row as it was; one that is not CSV by its lines, each with its cells if it can be read by itself."""
        if row.source.cells:
            writer.writerow([row.line, row.reason, *others(row.source.cells)])
        for place, text in enumerate(row.source.texts):
            if cells := others(reader.parsed_alone(text)):
                said = row.reason if place == 0 else f"read as part of line {row.line}"
                writer.writerow([row.line + place, said, *cells])

    # A reason may quote what the encoding lacks; the cells come from a file that has it.
    with csv_writer(file, form, quoting=csv.QUOTE_MINIMAL, errors="backslashreplace") as writer:
        writer.writerow([*REJECT_COLUMNS, *others(reader.head)])
        yield add


# The import.

USUAL_ENCODINGS = (UTF_8, "utf-8-sig")
"""Encodings that go without saying."""
FORGOTTEN_WORDS = "left out, because they were forgotten"


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@list_option
@account_option
@format_options
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="COLUMN=KEY",
    help="The attribute of a column. An empty KEY leaves the column out.",
)
@click.option(
    "--empty-clears", is_flag=True, help="Empty cells clear their fields. By default, they leave the fields unchanged."
)
@click.option("--dry-run", is_flag=True, help="Show what would happen, but store nothing.")
@click.option("--skip-faulty", is_flag=True, help="Import the valid rows even if others are faulty.")
@click.option("--rejects", metavar="FILE", help="Write the faulty rows and the reasons to this file.")
@click.option("--resume", is_flag=True, help="Continue an interrupted import of this file.")
@json_option
@with_appcontext
def import_(
    file: str, *, list_: str, account: str | None, mapping: tuple[str, ...], empty_clears: bool, **given: Any
) -> None:
    """Create or update contacts from a CSV file. Use - for standard input.

    Rows match contacts by email, or by mobile in a list without emails. Other rows create contacts. The first line
    names the columns: by key or name of a field, or as subscribed.email, subscribed.mobile, is_active or
    double_opt_in. An empty cell leaves its field unchanged, unless you use --empty-clears. If any row is faulty,
    nothing is imported. The encoding and the delimiter are detected.
    """
    _check_rejects(file, given["rejects"], given["skip_faulty"])
    need_installation_key(services())
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
    kind = ContactsOfList(contact_list, empty_clears=empty_clears)
    work = FileImport(services().database, kind, parse_mapping(contact_list, mapping), **given)
    with csv_source(file) as source:
        work.run(source)


def _check_rejects(file: str, rejects: str | None, skip_faulty: bool) -> None:
    if rejects is None:
        return
    if not skip_faulty:
        raise WrongValue("--rejects FILE needs --skip-faulty: without it, a faulty row stops the import")
    target = Path(rejects)
    if STANDARD_STREAM not in (file, rejects) and target.exists() and target.samefile(file):
        raise WrongValue("--rejects must name a file other than the imported file")


@dataclass(frozen=True, slots=True)
class FileImport:
    """One import into a list: how the file is read and imported, and how the result is printed."""

    database: Database
    kind: ContactsOfList
    mapping: ColumnMapping
    delimiter: str | None
    encoding: str | None
    dry_run: bool
    skip_faulty: bool
    rejects: str | None
    resume: bool
    as_json: bool

    def run(self, source: BinaryIO) -> None:
        """Reads the file, imports its rows unless it is a dry run, and prints what was done."""
        version, digests = _version(source), _digests(source)
        form = self._format(source)
        clears = ["empty_clears"] if self.kind.empty_clears else []
        read_as = orjson.dumps([*form, self.mapping, *clears], option=orjson.OPT_SORT_KEYS).decode()
        earlier_import = self._earlier_import(digests, read_as)
        if earlier_import is not None and earlier_import.end_time is not None:
            self._print_end(earlier_import, earlier_import.end_time)
            return
        position = earlier_import or new_import(self.kind.contact_list, digests, read_as)
        with tempfile.TemporaryFile() as file:
            valid = CheckedRows(file)
            report = self._check_rows(source, form, valid, position.rows_done)
            if _version(source) != version:
                raise WrongValue("the file was changed while it was read")
            if earlier_import is None and not self.dry_run:
                self.database.transact(lambda transaction: begin_import(transaction, position, digests))
            work = SlicedImport(self.database, self.kind, valid, position, keep=not self.dry_run)
            with (
                nullcontext() if self.dry_run else _with_position_in_errors(work),
                progress("Importing", valid.count) as advance,
            ):
                work.run(advance)
        self._print(report, valid.count, position)

    def _format(self, source: BinaryIO) -> FileFormat:
        """The encoding and the delimiter; says what was found where it is not the usual."""
        form = find_format(source, self._is_column, encoding=self.encoding, delimiter=self.delimiter)
        encoding, delimiter = form
        is_unusual = self.encoding is None and encoding not in USUAL_ENCODINGS
        if is_unusual or (self.delimiter is None and delimiter != DELIMITERS["comma"]):
            echo(f"read as {encoding} with {delimiter_name(delimiter)} (otherwise: --encoding, --delimiter)", err=True)
        return form

    def _is_column(self, name: str) -> bool:
        return name.strip() in self.mapping or self.kind.column(name) is not None

    def _earlier_import(self, digests: Sequence[str], read_as: str) -> ContactImport | None:
        """The import that goes on; None for one from the first row on."""
        with self.database.read() as session:
            earlier_import = find_import(session, self.kind.contact_list, digests)
        if (
            not self.resume
            and earlier_import is not None
            and earlier_import.end_time is None
            and earlier_import.rows_done
            and not self.dry_run
        ):
            done = earlier_import.rows_done
            echo(f"starting with the first row; --resume would continue after the first {done} rows", err=True)
        if self.resume and earlier_import is None:
            echo("no interrupted import of this file into this list: starting with the first row", err=True)
        if not self.resume or earlier_import is None:
            return None
        if earlier_import.options != read_as:
            raise WrongValue(
                "the interrupted import used other options: use the same --map, --delimiter, --encoding and "
                "--empty-clears, or start again without --resume"
            )
        return earlier_import

    def _check_rows(self, source: BinaryIO, form: FileFormat, valid: CheckedRows, done: int) -> FaultReport:
        """Checks all rows. Raises `WrongValue` if one is faulty, unless those are to be left out."""
        read = 0

        def on_batch() -> None:
            nonlocal read
            before, read = read, source.tell()
            advance(read - before)

        with reading(source, form) as reader, progress("Reading", _version(source)[0]) as advance:
            keys = keys_of(self.kind.contact_list, reader.head, reader.head_line, self.mapping)
            with rejects_of(self.rejects, form, reader) as reject:
                given = self.database, self.kind, keys, reader.rows(), valid.add
                report = check(*given, reject=reject, on_batch=on_batch, done=done)
        if report.faulty and not self.skip_faulty:
            raise WrongValue(report.refusal())
        valid.rewind()
        return report

    def _print_end(self, position: ContactImport, end_time: datetime) -> None:
        """Says that there is nothing to resume."""
        left_out = {"left_out": position.left_out} if position.left_out else {}
        facts = {"created": position.created, "updated": position.updated, **left_out, "end_time": end_time}
        print_done(f"this file was already imported at {timestamp(end_time)}", facts, self.as_json)

    def _print(self, report: FaultReport, valid: int, position: ContactImport) -> None:
        for line in report.lines():
            echo(line, err=True)
        unchanged = valid - position.created - position.updated - position.left_out
        facts: dict[str, Any] = {"created": position.created, "updated": position.updated, "unchanged": unchanged}
        facts |= {"left_out": position.left_out} if position.left_out else {}
        said = {**facts, "rejected": report.faulty} if self.skip_faulty else facts
        summary = ", ".join(
            f"{count} {FORGOTTEN_WORDS if name == 'left_out' else name}" for name, count in said.items()
        )
        facts |= {"rejected": report.faulty, "dry_run": self.dry_run}
        if self.dry_run:
            with self.database.read() as session:
                facts["automations"] = listeners_of(session, self.kind.contact_list)
            entered = f"; the list has automations that contacts may enter: {', '.join(facts['automations'])}"
            summary = f"would be: {summary}. Nothing was stored{entered if facts['automations'] else ''}"
        print_done(summary, facts, self.as_json, err=self.rejects == STANDARD_STREAM)


@contextmanager
def _with_position_in_errors(work: SlicedImport) -> Iterator[None]:
    """Says of what ends the import early how it goes on."""

    def done() -> str:
        rows = work.position.rows_done
        return f"{rows} rows are imported; to continue, run the same command with --resume"

    try:
        yield
    except OvertakenImport:
        raise WrongValue("another process is importing this file, or the list was deleted") from None
    except ServiceError as error:
        faults = (
            f"line {work.slice[field_error.index or 0].line}: {field_error.developer_message}"
            for field_error in error.errors
        )
        raise WrongValue("\n  ".join([f"{done()}, but first resolve these errors:", *faults])) from None
    except KeyboardInterrupt:
        raise Failure(f"interrupted: {done()}") from None
    except SQLAlchemyError:
        echo(done(), err=True)
        raise


def listeners_of(session: Session, contact_list: ListSpec) -> list[str]:
    """The names of the automations that contacts of the list may enter."""
    listening = Automation.account_id == contact_list.account_id, Automation.list_id == contact_list.id
    return list(session.scalars(select(Automation.name).where(*listening).order_by(Automation.name)))


def _version(source: BinaryIO) -> tuple[int, int]:
    """Size and time of the last change: equal at two moments if nobody has written the file in between."""
    status = os.fstat(source.fileno())
    return status.st_size, status.st_mtime_ns


def _digests(source: BinaryIO) -> Sequence[str]:
    """The digests of the file's contents under all keys. They are keyed because a file may be so short that whoever is
    in it could be guessed from a hash."""
    source.seek(0)
    digest = hashlib.sha256()
    while block := source.read(BLOCK_BYTES):
        digest.update(block)
    return keyed_digests(services().settings.secret_keys, digest.hexdigest())
