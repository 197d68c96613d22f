"""Writes the checked rows of an import, in chunks that commit by themselves (docs/cli.md#while-the-service-runs)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.audit.record import record
from app.cli.base import Failure, WrongValue, echo
from app.cli.progress import progress
from app.contacts.acts import act_on_list
from app.contacts.import_check import CheckedRow, CheckedRows
from app.contacts.imports import (
    Chunk,
    ImportPosition,
    OvertakenImport,
    begin_import,
    end_import,
    import_chunk,
    upsert_chunk,
)
from app.db.database import Database, Transaction
from app.db.models import Automation
from app.db.write_turns import WriteTurns
from app.errors import ServiceError
from app.lists.fields import ListSpec

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
        self.position = self._database.transact(partial(self._begin, digests=digests, options=options))
        with self._explained():
            for chunk in self._chunks():
                self.position = self._write(chunk)
            self._database.transact(partial(end_import, position=self.position))

    def _begin(self, transaction: Transaction, digests: Sequence[str], options: str) -> ImportPosition:
        """Records one act, however many chunks follow, and however the import ends."""
        done = {"rows_done_before": self.position.rows_done} if self._is_begun else {}
        record(transaction, act_on_list("list.imported", self._list, rows=self._rows.count, **done))
        return self.position if self._is_begun else begin_import(transaction, self._list, digests, options)

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
