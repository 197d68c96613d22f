"""The import of one file: how it is read, the check of its rows, and what is said about it (docs/cli.md#csv-files)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from app.cli.base import WrongValue, echo, print_done
from app.cli.csv_files import STANDARD
from app.cli.import_columns import Mapped, is_column, keys_of
from app.cli.import_rejects import rejects_of
from app.cli.import_writing import ImportWriting, listeners_of
from app.cli.progress import progress
from app.clock import timestamp
from app.contacts.import_check import CheckedRows, FileCheck
from app.contacts.imports import ImportPosition, find_import
from app.csv_files.reader import (
    DELIMITERS,
    UTF_8,
    FileFormat,
    delimiter_name,
    digest_of,
    find_format,
    reading,
    version_of,
)
from app.db.database import Database
from app.http.context import services
from app.infrastructure.digests import keyed_digests
from app.lists.fields import ListSpec

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
