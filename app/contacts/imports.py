"""Imports of contacts in many short transactions (docs/cli.md#csv-files).

A chunk of rows and the position behind it are committed together. So an import that was interrupted, however it was,
goes on behind the last chunk, and no row is imported twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from app.audit.record import record
from app.clock import this_second
from app.contacts.acts import act_on_list
from app.contacts.state import ContactAttributes
from app.contacts.upsert import Upserted, match_contacts, upsert_batch, upsert_contacts
from app.db.bulk import draw_ids
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, ContactImport, table_of
from app.lists.fields import ListSpec
from app.lists.find import get_list


class OvertakenImport(Exception):
    """Another process has gone on with the import, or begun it anew."""


@dataclass(frozen=True, slots=True)
class ImportPosition:
    """How far an import has come, with all its interruptions."""

    id: int = 0
    options: str = ""
    rows_done: int = 0
    created: int = 0
    updated: int = 0
    left_out: int = 0
    """Forgotten people who had unsubscribed or were blocked."""
    end_time: datetime | None = None

    def after(self, upserted: Upserted, rows_done: int) -> ImportPosition:
        """The position behind further rows."""
        return replace(
            self,
            rows_done=rows_done,
            created=self.created + upserted.created,
            updated=self.updated + upserted.updated,
            left_out=self.left_out + upserted.left_out,
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a file: their contacts, for each the number of rows before it with the same identifier, and the number
    of rows of the file up to the last of them."""

    contacts: Sequence[ContactAttributes]
    earlier: Sequence[int]
    rows_done: int


def find_import(session: Session, contact_list: ListSpec, digests: Sequence[str]) -> ImportPosition | None:
    """The latest import of a file with these contents into the list, finished or not. The digests are those of the
    contents under all keys."""
    of_file = ContactImport.list_id == contact_list.id, ContactImport.digest.in_(digests)
    one = session.scalars(select(ContactImport).where(*of_file)).first()
    if one is None:
        return None
    counts = one.rows_done, one.created, one.updated, one.left_out
    return ImportPosition(one.id, one.options, *counts, end_time=one.end_time)


def begin_import(
    transaction: Transaction,
    contact_list: ListSpec,
    digests: Sequence[str],
    options: str,
    *,
    rows: int,
    position: ImportPosition | None = None,
) -> ImportPosition:
    """A new import of so many rows from the first row on, in place of an earlier one of this file into this list; with
    a position, the one that goes on there. It has the first of the digests. It is one act, however many chunks follow,
    and however it ends."""
    done = {"rows_done_before": position.rows_done} if position else {}
    record(transaction, act_on_list("list.imported", contact_list, rows=rows, **done))
    return position or _new_import(transaction, contact_list, digests, options)


def _new_import(
    transaction: Transaction, contact_list: ListSpec, digests: Sequence[str], options: str
) -> ImportPosition:
    table, moment = table_of(ContactImport), this_second()
    connection = transaction.connection()
    connection.execute(delete(table).where(table.c.list_id == contact_list.id, table.c.digest.in_(digests)))
    (import_id,) = draw_ids(transaction, ContactImport, 1)
    row = {
        **{"id": import_id, "account_id": contact_list.account_id, "list_id": contact_list.id, "digest": digests[0]},
        **{"options": options, "rows_done": 0, "created": 0, "updated": 0, "left_out": 0},
        **{"creation_time": moment, "last_modified_time": moment},
    }
    connection.execute(insert(table), row)
    return ImportPosition(import_id, options)


def import_chunk(
    transaction: Transaction, contact_list: ListSpec, position: ImportPosition, chunk: Chunk
) -> ImportPosition:
    """Upserts the contacts of the chunk that follows the position; returns the position behind it.

    Raises `OvertakenImport`, and `ServiceError` located by collection and index in the chunk; the transaction must be
    rolled back then.
    """
    # First, so that of two processes with the same import one waits here and then finds that it was overtaken.
    _move(transaction, position, rows_done=chunk.rows_done)
    upserted = upsert_chunk(transaction, contact_list, chunk)
    after, table = position.after(upserted, chunk.rows_done), table_of(ContactImport)
    counts = {"created": after.created, "updated": after.updated, "left_out": after.left_out}
    transaction.connection().execute(update(table).where(table.c.id == position.id).values(counts))
    return after


def upsert_chunk(transaction: Transaction, contact_list: ListSpec, chunk: Chunk) -> Upserted:
    """Upserts the contacts of a chunk; raises as `import_chunk`."""
    # Read again for each chunk: automations may have begun to listen to the list meanwhile.
    current = get_list(transaction, contact_list.account_id, contact_list.id)
    return upsert_batch(transaction, current, chunk.contacts, chunk.earlier, allow_system=True)


def import_at_once(transaction: Transaction, contact_list: ListSpec, contacts: Sequence[ContactAttributes]) -> Upserted:
    """Upserts the contacts of a short file, all or none. Raises `ServiceError`, located by their places."""
    # Read again: automations may have begun to listen to the list meanwhile.
    current = get_list(transaction, contact_list.account_id, contact_list.id)
    done = upsert_contacts(transaction, current, contacts, allow_system=True)
    if done.created or done.updated:
        record(transaction, act_on_list("list.imported", contact_list, rows=len(contacts)))
    return done


def end_import(transaction: Transaction, position: ImportPosition) -> None:
    """Marks the import as finished. Raises `OvertakenImport`."""
    _move(transaction, position, end_time=this_second())


def _move(transaction: Transaction, position: ImportPosition, **values: int | datetime) -> None:
    table = table_of(ContactImport)
    moved = (
        update(table)
        .where(table.c.id == position.id, table.c.rows_done == position.rows_done)
        .values(last_modified_time=this_second(), **values)
    )
    if transaction.connection().execute(moved).rowcount != 1:
        raise OvertakenImport


def resets_double_opt_in(
    session: Session, contact_list: ListSpec, contacts: Sequence[ContactAttributes], earlier: Sequence[int]
) -> set[int]:
    """The indexes of elements that would take a confirmation back, which no write may."""
    wanted = [index for index, attributes in enumerate(contacts) if attributes.get("double_opt_in") is False]
    if not wanted:
        return set()
    matches = match_contacts(
        session, contact_list, [contacts[index] for index in wanted], [earlier[index] for index in wanted]
    )
    by_id = {contact_id: index for index, contact_id in zip(wanted, matches, strict=True) if contact_id is not None}
    confirmed = session.scalars(select(Contact.id).where(in_json(Contact.id, list(by_id)), Contact.double_opt_in))
    return {by_id[contact_id] for contact_id in confirmed}
