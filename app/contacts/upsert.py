"""Upsert of contacts, for the seed file and for imports: missing contacts are created, others updated.

Contacts are found by their list's identifier (docs/contacts.md#identifiers). The use cases are those of the API, so
that events, triggers and unsubscriber entries are the same whatever caused the change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import select

from app.addresses import AddressKind, normalize_address
from app.contacts.create import create_contacts
from app.contacts.state import ContactAttributes
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.db.models import Contact
from app.errors import ErrorCollector, ServiceError
from app.lists.fields import ListSpec

BATCH_SIZE = 1000
"""Contacts in one round of statements."""


@dataclass(slots=True)
class Upserted:
    """How many contacts were created, and how many of the others changed."""

    created: int = 0
    updated: int = 0


def upsert_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    contacts: Sequence[ContactAttributes],
    *,
    allow_system: bool = False,
    on_progress: Callable[[int], object] = lambda _count: None,
) -> Upserted:
    """Creates or updates one contact per element; `on_progress` is called after each batch with its size.

    In a list that allows duplicates, elements with the same identifier match its contacts from the oldest on.
    Raises `ServiceError` located by collection and index; then the transaction must be rolled back.
    """
    kind = _identifier(contact_list, contacts)
    upserted, matched = Upserted(), set[int]()
    for start in range(0, len(contacts), BATCH_SIZE):
        batch = contacts[start : start + BATCH_SIZE]
        matches = list(enumerate(_match(transaction, contact_list.id, kind, batch, matched)))
        missing = [index for index, contact_id in matches if contact_id is None]
        present = [(index, contact_id) for index, contact_id in matches if contact_id is not None]
        with _renumbered([start + index for index in missing]):
            new = [batch[index] for index in missing]
            matched.update(
                create_contacts(
                    transaction, contact_list, new, bulk=True, allow_system=allow_system, long_transaction=True
                )
            )
        with _renumbered([start + index for index, _ in present]):
            updates = [(contact_id, batch[index]) for index, contact_id in present]
            upserted.updated += update_contacts(
                transaction, contact_list, updates, bulk=True, allow_system=allow_system, long_transaction=True
            )
        upserted.created += len(missing)
        on_progress(len(batch))
    return upserted


def _identifier(contact_list: ListSpec, contacts: Sequence[ContactAttributes]) -> AddressKind:
    """The attribute that contacts are found by. Raises `ServiceError` if the list or an element has none."""
    if contact_list.identifier is None:
        detail = "the list has neither an Email nor a Mobile Phone field by which its contacts could be found"
        raise ServiceError("list_address_field_missing", collection="contacts", index=0, detail=detail)
    errors = ErrorCollector()
    detail = f"{contact_list.identifier} is required: contacts of this list are found by it."
    for index, attributes in enumerate(contacts):
        if attributes.get(contact_list.identifier) is None:
            errors.add("required", field=contact_list.identifier, collection="contacts", index=index, detail=detail)
    errors.raise_any()
    return contact_list.identifier


def _match(
    transaction: Transaction, list_id: int, kind: AddressKind, batch: Sequence[ContactAttributes], matched: set[int]
) -> list[int | None]:
    """The id of the contact that each element matches, None if there is none; adds the ids to `matched`, so that no
    contact matches twice."""
    keys = [normalize_address(kind, attributes[kind]).key for attributes in batch]
    column = ADDRESS_COLUMNS[kind]
    statement = (
        select(column, Contact.id)
        .where(Contact.list_id == list_id, column.in_(keys))
        .order_by(Contact.creation_time.desc(), Contact.id.desc())
    )
    free: defaultdict[str, list[int]] = defaultdict(list)
    for key, contact_id in transaction.execute(statement):
        if contact_id not in matched:
            free[key].append(contact_id)
    matches = [free[key].pop() if free[key] else None for key in keys]
    matched.update(contact_id for contact_id in matches if contact_id is not None)
    return matches


@contextmanager
def _renumbered(positions: Sequence[int]) -> Iterator[None]:
    """The errors of a batch, with positions among all elements."""
    try:
        yield
    except ServiceError as error:
        errors = [each if each.index is None else replace(each, index=positions[each.index]) for each in error.errors]
        raise ServiceError.of(errors, conflict_fields=error.conflict_fields) from None
