"""The number of a list's contacts: counters that change with the contacts (docs/querying.md#counting)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from app.db.counters import CONTACT_COUNTS, count
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.locks import lock_out_writers
from app.db.models import Contact, ContactCount, table_of
from app.db.models.groups import total
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.lists.fields import ListSpec

MAX_CONTACTS_AT_ONCE = 10_000
"""Contacts of a list that one request deletes, or compares with each other: more of them take minutes."""


def count_in_list(transaction: Transaction, contact_list: ListSpec, increment: int) -> None:
    """Adds to the number of the list's contacts, in this transaction."""
    count(transaction, CONTACT_COUNTS, contact_list.account_id, (contact_list.id,), contacts=increment)


def number_of_contacts(session: Session, list_id: int) -> int:
    """The counted number: this does not read the contacts."""
    counted = select(total(ContactCount.contacts, ContactCount.list_id == list_id))
    return int(session.execute(counted).scalar_one())


def check_size(session: Session, list_id: int, command: str) -> None:
    """Raises `conflict` for a list that is too large for one request, with the command in its place."""
    if number_of_contacts(session, list_id) > MAX_CONTACTS_AT_ONCE:
        doing = f"Ask an operator to run `{COMMAND_LINE} {command}`"
        detail = f"The list has more than {MAX_CONTACTS_AT_ONCE:,} contacts. {doing}."
        raise ServiceError("conflict", detail=detail)


def numbers_of_contacts(session: Session, list_ids: Collection[int]) -> Mapping[int, int]:
    """List id -> the counted number, of lists that have had contacts: one statement."""
    counted = select(ContactCount.list_id, func.sum(ContactCount.contacts)).group_by(ContactCount.list_id)
    rows = session.execute(counted.where(in_json(ContactCount.list_id, list(list_ids))))
    return {list_id: int(number) for list_id, number in rows}


def forget_count(transaction: Transaction, list_id: int) -> None:
    """Removes the counters of a list that is deleted."""
    transaction.connection().execute(delete(table_of(ContactCount)).where(ContactCount.list_id == list_id))


def recount_contacts(transaction: Transaction, account_id: int, list_id: int) -> tuple[int, int]:
    """Recounts the list's contacts; returns the old and the actual number. Requests that create or delete contacts wait
    meanwhile."""
    # Transactions that have changed contacts have counted them, or will count them after this.
    lock_out_writers(transaction, ContactCount)
    counted = number_of_contacts(transaction, list_id)
    statement = select(func.count()).select_from(Contact).where(Contact.list_id == list_id)
    present = int(transaction.execute(statement).scalar_one())
    if counted != present:
        forget_count(transaction, list_id)
        row = {"account_id": account_id, "list_id": list_id, "slot": 0, "contacts": present}
        transaction.connection().execute(insert(table_of(ContactCount)), row)
    return counted, present
