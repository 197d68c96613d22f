"""Places with few rows: answers kept for idempotency keys, parts of replies, counts of bounces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from sqlalchemy import CursorResult, Row, delete, or_, select, update
from sqlalchemy.orm import Session

from app.contacts.delete import delete_contacts
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.database import Transaction
from app.db.expressions import contains_any, in_json
from app.db.models import Contact, IdempotencyRecord, List, ReplyPart, SoftBounces, table_of
from app.db.pages import matching_pages
from app.infrastructure.digests import keyed_digest
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

KEPT_OF_ANSWER = frozenset({"id", "list_id", "creation_time", "last_modified_time", "_links"})
"""Attributes of a contact that stay in the answer that a repeated request gets."""


def read_answers(_services: Services, session: Session, person: Person) -> Pages:
    """The answers that name the person, or whose key does."""
    for rows in _answers(session, person):
        yield shown_rows(rows, "fingerprint")


def erase_answers(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """A repeated request gets the answer without what is the person's. A key that names the person goes with its
    record: the request would be carried out again."""
    erased = 0
    with eraser.services.database.read() as session:
        pages = list(_answers(session, person))
    for rows in pages:
        secret_key = eraser.services.settings.secret_key
        eraser.take(len(rows), partial(_erase_answers, secret_key=secret_key, person=person, rows=rows))
        erased += len(rows)
    return {"stored answers": erased}


def _answers(session: Session, person: Person) -> Any:
    record = IdempotencyRecord
    columns: tuple[Any, ...] = (record.id, record.key, record.creation_time, record.body, record.fingerprint)
    of_contacts = [f'"id":{one},' for one in person.contact_ids]
    matches = or_(
        contains_any(session, record.key, person.own_words),
        contains_any(session, record.body, of_contacts, fold=False),
        contains_any(session, record.body, person.own_words),
    )
    order = record.account_id, record.key
    for page in matching_pages(session, select(*columns), record.account_id == person.account_id, order, matches):
        if found := [row for row in page if _names(person, row)]:
            yield found


def _names(person: Person, row: Row[Any]) -> bool:
    if person.is_named_in(row.key) or person.is_named_in(row.body):
        return True
    return bool(person.contact_ids) and not _is_blank(row.body) and _contact_of(row.body) in person.contact_ids


def _contact_of(body: str | None) -> int | None:
    """The contact whose creation is answered."""
    answer = orjson.loads(body) if body and body.startswith("{") else {}
    return answer.get("id") if "list_id" in answer else None


def _is_blank(body: str | None) -> bool:
    return body is None or KEPT_OF_ANSWER.issuperset(orjson.loads(body) if body.startswith("{") else ())


def _erase_answers(transaction: Transaction, secret_key: str, person: Person, rows: Sequence[Row[Any]]) -> None:
    gone = [row.id for row in rows if person.is_named_in(row.key)]
    _delete(transaction, IdempotencyRecord, gone)
    for row in rows:
        if row.id not in gone:
            kept = {name: value for name, value in orjson.loads(row.body).items() if name in KEPT_OF_ANSWER}
            # The person's address may be all of the request that is not known: nobody shall guess it from a hash.
            values = {"body": orjson.dumps(kept).decode(), "fingerprint": keyed_digest(secret_key, row.fingerprint)}
            statement = update(table_of(IdempotencyRecord)).where(table_of(IdempotencyRecord).c.id == row.id)
            transaction.connection().execute(statement.values(values))


def _replies(session: Session, person: Person) -> Sequence[Row[Any]]:
    columns: tuple[Any, ...] = (ReplyPart.id, ReplyPart.number, ReplyPart.mobile, ReplyPart.time, ReplyPart.body)
    parts = select(*columns)
    if person.kind != "mobile":
        return []
    of_person = ReplyPart.account_id == person.account_id, ReplyPart.mobile == person.key
    return session.execute(parts.where(*of_person).order_by(ReplyPart.id)).all()


def read_replies(_services: Services, session: Session, person: Person) -> Pages:
    """Parts of long replies."""
    yield from one_page(shown_rows(_replies(session, person)))


def erase_replies(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Deletes them; one whose other parts are still to come is never recorded."""

    def work(transaction: Transaction) -> int:
        return _delete(transaction, ReplyPart, [row.id for row in _replies(transaction, person)])

    return {"parts of replies": eraser.take(1, work)}


def _counts(session: Session, person: Person) -> Sequence[Row[Any]]:
    of_person = SoftBounces.account_id == person.account_id, SoftBounces.kind == person.kind
    columns: tuple[Any, ...] = (SoftBounces.id, SoftBounces.address, SoftBounces.bounces)
    statement = select(*columns)
    return session.execute(statement.where(*of_person, SoftBounces.address.in_(person.forms))).all()


def read_bounces(_services: Services, session: Session, person: Person) -> Pages:
    """The count of soft bounces."""
    yield from one_page(shown_rows(_counts(session, person)))


def erase_bounces(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Deletes the count."""

    def work(transaction: Transaction) -> int:
        return _delete(transaction, SoftBounces, [row.id for row in _counts(transaction, person)])

    return {"counts of bounces": eraser.take(1, work)}


def _delete(transaction: Transaction, model: Any, ids: Sequence[int]) -> int:
    if not ids:
        return 0
    chosen = in_json(table_of(model).c.id, ids)
    deleted: CursorResult[Any] = transaction.connection().execute(delete(table_of(model)).where(chosen))
    return deleted.rowcount


# Contacts and suppressions as places.


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
    return {"contacts": eraser.take(max(len(person.contact_ids), 1), partial(_delete_contacts, person=person))}


def _prepare_digests(eraser: Eraser, person: Person) -> None:
    with eraser.services.database.read() as session:
        if not needs_digest(session, person):
            return
    secret_key = eraser.services.settings.secret_key
    eraser.take(1, partial(make_digests_known, secret_key=secret_key, account_id=person.account_id))


def _delete_contacts(transaction: Transaction, person: Person) -> int:
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
