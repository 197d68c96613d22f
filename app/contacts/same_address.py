"""Contacts whose address is stored as a release before revision 0072 compared it, by its case alone, and contacts of a
list that have one address in several spellings since (docs/contacts.md#one-address).

A list without duplicates may have such contacts. They stay: one of them has the address as its identifier, another
keeps the identifier of that release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, bindparam, or_, select, update
from sqlalchemy.orm import Session

from app.addresses import email_key
from app.clock import this_second
from app.contacts.events import record_contact_events
from app.contacts.filters import is_blocked
from app.contacts.subscriptions import has_entry, lock_subscriptions
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, List, Unsubscriber, table_of


class Pair(NamedTuple):
    """Two contacts of a list that have one address; the older one is found by it."""

    list: str
    address: str
    older_id: int
    older_email: str
    younger_id: int
    younger_email: str


def find_pairs(session: Session, account_id: int, limit: int) -> list[Pair]:
    """Pairs of contacts that have one address in a list without duplicates: two statements."""
    columns = select(Contact.list_id, Contact.email_key, Contact.creation_time, Contact.id, Contact.email)
    others = columns.where(Contact.account_id == account_id, Contact.identifier != Contact.email_key)
    rows = session.execute(others.add_columns(List.name).join(List).order_by(Contact.id).limit(limit)).all()
    is_of_lists = in_json(Contact.list_id, {row.list_id for row in rows})
    chosen = columns.where(is_of_lists, in_json(Contact.identifier, {str(row.email_key) for row in rows}))
    owners = {(row.list_id, row.email_key): row for row in session.execute(chosen)} if rows else {}
    pairs = []
    for row in rows:
        if owner := owners.get((row.list_id, row.email_key)):
            older, younger = sorted((owner, row), key=lambda contact: (contact.creation_time, contact.id))
            pairs.append(Pair(row.name, str(row.email_key), older.id, str(older.email), younger.id, str(younger.email)))
    return pairs


def compare_contacts(transaction: Transaction, account_id: int, ids: Sequence[int]) -> None:
    """Brings the addresses of these contacts of the account into the form in which they are compared, with what is
    unsubscribed and blocked in that form. An identifier that another contact of the list has stays as it is."""
    lock_subscriptions(transaction, account_id)
    table = table_of(Contact)
    chosen = select(table).where(table.c.account_id == account_id, in_json(table.c.id, ids))
    locked: Sequence[Row[Any]] = transaction.connection().execute(chosen.order_by(table.c.id).with_for_update()).all()
    rows = sorted(locked, key=lambda row: (row.creation_time, row.id))
    blocked = _blocked(transaction, ids)
    taken = _taken(transaction, rows)
    values = [value for row in rows if (value := _compared(row, taken)) is not None]
    if not values:
        return
    by_id = update(table).where(table.c.id == bindparam("contact_id"))
    new: dict[str, Any] = {"email_key": bindparam("new_key"), "identifier": bindparam("new_identifier")}
    transaction.connection().execute(by_id.values(new), values)
    changed = {*_unsubscribed(transaction, ids), *(_blocked(transaction, ids) - blocked)}
    _report(transaction, account_id, changed)


def _compared(row: Row[Any], taken: set[tuple[int, str]]) -> Mapping[str, Any] | None:
    """The columns of the contact in the form; None if it has them already."""
    if row.email_key is None:
        return None
    key, identifier = email_key(row.email_key), row.identifier
    if identifier is not None and email_key(identifier) == key and (row.list_id, key) not in taken:
        taken.add((row.list_id, key))
        identifier = key
    if (key, identifier) == (row.email_key, row.identifier):
        return None
    return {"contact_id": row.id, "new_key": key, "new_identifier": identifier}


def _taken(transaction: Transaction, rows: Sequence[Row[Any]]) -> set[tuple[int, str]]:
    """Lists with identifiers that one of their contacts has."""
    keys = {email_key(row.email_key) for row in rows if row.email_key is not None}
    chosen = in_json(Contact.list_id, {row.list_id for row in rows}), in_json(Contact.identifier, keys)
    taken = transaction.execute(select(Contact.list_id, Contact.identifier).where(*chosen))
    return {(list_id, identifier) for list_id, identifier in taken if identifier is not None}


def _blocked(transaction: Transaction, ids: Sequence[int]) -> set[int]:
    return set(transaction.scalars(select(Contact.id).where(in_json(Contact.id, ids), is_blocked("email"))))


def _unsubscribed(transaction: Transaction, ids: Sequence[int]) -> set[int]:
    """Unsubscribes the contacts whose address has an entry in its new form; returns their ids."""
    applies = has_entry("email", or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == Contact.list_id))
    chosen = update(Contact).where(in_json(Contact.id, ids), Contact.subscribed_email, applies)
    flagged = chosen.values(subscribed_email=False).returning(Contact.id)
    return set(transaction.scalars(flagged, execution_options={"synchronize_session": False}))


def _report(transaction: Transaction, account_id: int, ids: set[int]) -> None:
    """Whoever synchronises contacts sees the change."""
    if not ids:
        return
    moment = this_second()
    modified = update(Contact).where(in_json(Contact.id, ids)).values(last_modified_time=moment)
    rows = transaction.execute(
        modified.returning(Contact.list_id, Contact.id), execution_options={"synchronize_session": False}
    )
    record_contact_events(transaction, account_id, "updated", sorted((row[0], row[1]) for row in rows), moment)
