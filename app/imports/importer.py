"""Imports a CSV file of any kind: checks all of its rows, and then writes those that are valid, at once or in slices
between which others write (docs/csv.md).

A slice and the position behind it are committed together. So an import that was interrupted, however it was, goes on
behind the last slice, and no row is imported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.audit.record import record
from app.clock import this_second
from app.contacts.upsert import UpsertCounts
from app.csv_files.reader import FileRow, from_cell
from app.db.database import Database, Transaction
from app.db.json_fields import KeyCounts
from app.db.models import ContactImport
from app.db.write_turns import WriteTurns
from app.errors import ServiceError
from app.imports.kinds import ContactsOfList, Kind
from app.imports.rows import CheckedRows, Fault, FaultReport, Row
from app.lists.fields import ListSpec

BATCH_SIZE = 1000
MAX_BATCH_CHARACTERS = 4 * 1024 * 1024
"""How many characters the rows of one batch may have."""
NAMELESS_COLUMN = ""
"""The key of a column without a name, whose cells must be empty."""
MAX_RETRIES = 3
"""How often a slice is written again because somebody else has just created a contact of it, which is then updated."""


def check(
    database: Database,
    kind: Kind,
    keys: Sequence[str | None],
    sources: Iterable[FileRow],
    accept: Callable[[Row], object],
    *,
    reject: Callable[[Row], object] = lambda _: None,
    on_batch: Callable[[], object] = lambda: None,
    done: int = 0,
) -> FaultReport:
    """Checks the rows of a file whose columns have these keys, None for those that are not read, in one pass. The rows
    before `done` have been imported."""
    report = FaultReport()
    with KeyCounts() as counts:
        for batch in _batches(sources):
            rows = [_read(kind, keys, report.rows + place, source) for place, source in enumerate(batch)]
            report.rows += len(rows)
            kind.compare(database, [row for row in rows if not row.faults], counts, done)
            for row in rows:
                if row.faults:
                    report.add(row)
                    reject(row)
                else:
                    accept(row)
            on_batch()
    return report


def _batches(sources: Iterable[FileRow]) -> Iterator[Sequence[FileRow]]:
    batch: list[FileRow] = []
    characters = 0
    for source in sources:
        batch.append(source)
        characters += sum(map(len, source.cells))
        if len(batch) == BATCH_SIZE or characters > MAX_BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    yield batch


def _read(kind: Kind, keys: Sequence[str | None], place: int, source: FileRow) -> Row:
    """The row with the faults that it has by itself."""
    row = Row(place, source.line, {}, source=source)
    if source.problem is not None:
        row.faults.append(Fault(("cells" if source.cells else "csv", None), source.problem))
        return row
    cells: dict[str, str] = {}
    for key, text in zip(keys, source.cells, strict=True):
        if key:
            cells[key] = from_cell(text)
        elif key == NAMELESS_COLUMN and text:
            row.faults.append(Fault(("nameless", None), "a column without a name must be empty", text))
    row.values, faults = kind.read(cells)
    row.faults += faults
    return row


# All rows of a short file, all or none.


def write_at_once(transaction: Transaction, kind: Kind, rows: Sequence[Row]) -> UpsertCounts:
    """Writes the rows, with one entry in the audit log if they change anything. Raises `ServiceError`, located by their
    indexes."""
    done = kind.write(transaction, rows, True)
    if done.has_changed:
        record(transaction, kind.act(len(rows), done))
    return done


# Imports of files of any length into a list.


class OvertakenImport(Exception):
    """Another process has gone on with the import, or begun it anew."""


def find_import(session: Session, contact_list: ListSpec, digests: Sequence[str]) -> ContactImport | None:
    """The latest import of a file with these contents into the list, finished or not. The digests are those of the
    contents under all keys."""
    file_filter = ContactImport.list_id == contact_list.id, ContactImport.digest.in_(digests)
    return session.scalars(select(ContactImport).where(*file_filter)).first()


def new_import(contact_list: ListSpec, digests: Sequence[str], options: str) -> ContactImport:
    """An import from the first row on, which is not stored. It has the first of the digests."""
    return ContactImport(
        account_id=contact_list.account_id,
        list_id=contact_list.id,
        digest=digests[0],
        options=options,
        **{"rows_done": 0, "created": 0, "updated": 0, "left_out": 0},
        creation_time=this_second(),
        last_modified_time=this_second(),
    )


def begin_import(transaction: Transaction, new: ContactImport, digests: Sequence[str]) -> None:
    """Stores a new import, in place of an earlier one of this file into this list."""
    earlier = ContactImport.list_id == new.list_id, ContactImport.digest.in_(digests)
    transaction.execute(delete(ContactImport).where(*earlier))
    transaction.add(new)


class SlicedImport:
    """Writes the checked rows of a file that follow a position, slice by slice. They are one act, however many slices
    follow, and however they end: recorded with the first that changes anything."""

    def __init__(
        self, database: Database, kind: ContactsOfList, rows: CheckedRows, position: ContactImport, *, keep: bool = True
    ) -> None:
        self.position = position
        """How far the import has come, with all its interruptions: a copy of what is stored."""
        self.slice: Sequence[Row] = ()
        """The rows that are being written."""
        self._database, self._kind, self._rows, self._keep = database, kind, rows, keep
        self._begin, self._is_recorded = position.rows_done, False

    def run(self, advance: Callable[[int], object]) -> None:
        """Writes the rows, or unless `keep` rolls each slice back; `advance` is called with the size of each. Raises
        `OvertakenImport`, and `ServiceError` located by the indexes in `slice`; the position is then behind the slice
        before."""
        turns = WriteTurns(self._database)
        while rows := self._rows.take(turns.size):
            self.slice = [row for row in rows if row.place >= self.position.rows_done]
            if self.slice:
                done = self._take_turn(turns)
                self._is_recorded |= done.has_changed
                self._count(self.position, done)
            advance(len(rows))
        if self._keep:
            self._database.transact(self._end)

    def _take_turn(self, turns: WriteTurns) -> UpsertCounts:
        conflicts = 0
        while True:
            try:
                return turns.take(len(self.slice), self._write, keep=self._keep)
            except ServiceError as error:
                conflicts += 1
                if error.code != "conflict" or conflicts > MAX_RETRIES:
                    raise

    def _write(self, transaction: Transaction) -> UpsertCounts:
        # First, so that of two processes with the same import one waits here and then finds that it was overtaken.
        stored = self._lock_stored(transaction) if self._keep else None
        done = self._kind.write(transaction, self.slice, False)
        if done.has_changed and not self._is_recorded:
            before = {"rows_done_before": self._begin} if self._begin else {}
            record(transaction, self._kind.act(self._rows.count, done, **before))
        if stored is not None:
            self._count(stored, done)
        return done

    def _lock_stored(self, transaction: Transaction) -> ContactImport:
        """Reads the stored import and locks its row. Raises `OvertakenImport` if its position has changed."""
        at = ContactImport.id == self.position.id, ContactImport.rows_done == self.position.rows_done
        position = transaction.scalars(select(ContactImport).where(*at).with_for_update()).first()
        if position is None:
            raise OvertakenImport
        position.last_modified_time = this_second()
        return position

    def _count(self, position: ContactImport, done: UpsertCounts) -> None:
        position.rows_done = self.slice[-1].place + 1
        position.created += done.created
        position.updated += done.updated
        position.left_out += done.left_out

    def _end(self, transaction: Transaction) -> None:
        self._lock_stored(transaction).end_time = this_second()
