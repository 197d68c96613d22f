"""Contacts and suppressions as places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.contacts.delete import delete_contacts
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, List, table_of
from app.lists.find import get_list
from app.privacy.person import Person
from app.privacy.place import Eraser, Pages, one_page, shown_rows
from app.privacy.suppressions import (
    blocked_entries,
    keep_as_digests,
    make_digests_known,
    needs_digest,
    unsubscribed_entries,
)
from app.services import Services


def read_contacts(_services: Services, session: Session, person: Person) -> Pages:
    """The contacts that have the address, each with the name of its list."""
    statement = select(List.name.label("list"), table_of(Contact)).join(List, List.id == Contact.list_id)
    chosen = Contact.account_id == person.account_id, ADDRESS_COLUMNS[person.kind].in_(person.forms)
    rows = session.execute(statement.where(*chosen).order_by(Contact.id)).all()
    yield from one_page(shown_rows(rows, "account_id", "email_key", "identifier"))


def erase_contacts(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Deletes them, with their events and the ends of their runs. If the address is unsubscribed or blocked, that is
    kept in the same transaction as the last of them."""
    _prepare_digests(eraser, person)
    return {"contacts": eraser.take(max(len(person.contact_ids), 1), partial(_delete, person=person))}


def _prepare_digests(eraser: Eraser, person: Person) -> None:
    with eraser.services.database.read() as session:
        if not needs_digest(session, person):
            return
    secret_key = eraser.services.settings.secret_key
    eraser.take(1, partial(make_digests_known, secret_key=secret_key, account_id=person.account_id))


def _delete(transaction: Transaction, person: Person) -> int:
    keep_as_digests(transaction, person)
    by_list: dict[int, list[int]] = defaultdict(list)
    chosen = in_json(Contact.id, person.contact_ids), ADDRESS_COLUMNS[person.kind].in_(person.forms)
    rows = transaction.execute(
        select(Contact.list_id, Contact.id).where(Contact.account_id == person.account_id, *chosen)
    )
    for list_id, contact_id in rows:
        by_list[list_id].append(contact_id)
    lists = [(get_list(transaction, person.account_id, list_id), ids) for list_id, ids in sorted(by_list.items())]
    return sum(delete_contacts(transaction, one, ids, allow_system=True, has_entry=True) for one, ids in lists)


def read_suppressions(_services: Services, session: Session, person: Person) -> Pages:
    """Where the address is unsubscribed, and why it is blocked."""
    unsubscribed = [{"state": "unsubscribed", **row} for row in shown_rows(unsubscribed_entries(session, person))]
    blocked = [{"state": "blocked", **row} for row in shown_rows(blocked_entries(session, person))]
    yield from one_page([*unsubscribed, *blocked])


def erase_suppressions(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """What came meanwhile; contacts are deleted together with the suppressions that were there."""
    _prepare_digests(eraser, person)
    return {"suppressions": sum(eraser.take(1, partial(keep_as_digests, person=person)))}
