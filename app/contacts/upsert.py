"""Upsert of contacts, for the seed file and for imports: missing contacts are created, others updated.

Contacts are found by their list's identifier (docs/contacts.md#identifiers). The use cases are those of the API, so
that events, triggers and unsubscriber entries are the same whatever caused the change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, all_forms, normalize_address
from app.contacts.create import create_contacts
from app.contacts.state import ContactAttributes
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.contacts.unsubscriber_entries import find_unsubscriber_entries
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact
from app.errors import FieldError, ServiceError
from app.lists.fields import ListSpec

BATCH_SIZE = 1000
"""Contacts in one round of statements."""


@dataclass(slots=True)
class UpsertCounts:
    """How many contacts were created, how many of the others changed, and how many were left out."""

    created: int = 0
    updated: int = 0
    left_out: int = 0
    """Forgotten people who had unsubscribed or were blocked: no file brings them back."""

    @property
    def has_changed(self) -> bool:
        """Whether any contact was created or changed."""
        return bool(self.created or self.updated)

    def add(self, other: UpsertCounts) -> None:
        """Adds the numbers of further contacts."""
        self.created += other.created
        self.updated += other.updated
        self.left_out += other.left_out


def upsert_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    contacts: Sequence[ContactAttributes],
    *,
    allow_system: bool = False,
) -> UpsertCounts:
    """Creates or updates one contact per element, in a transaction that may be long.

    In a list that allows duplicates, elements with the same identifier match its contacts from the oldest on.
    Raises `ServiceError` located by collection and index; then the transaction must be rolled back.
    """
    kind = identifier_of(contact_list)
    _check_identified(kind, contacts)
    seen, upserted = Counter[str](), UpsertCounts()
    for start in range(0, len(contacts), BATCH_SIZE):
        batch = contacts[start : start + BATCH_SIZE]
        earlier = []
        for attributes in batch:
            key = key_of(kind, attributes)
            earlier.append(seen[key])
            seen[key] += 1
        with _renumbered(range(start, start + len(batch))):
            upserted.add(
                upsert_batch(
                    transaction, contact_list, batch, earlier, allow_system=allow_system, long_transaction=True
                )
            )
    return upserted


def upsert_batch(
    transaction: Transaction,
    contact_list: ListSpec,
    batch: Sequence[ContactAttributes],
    earlier: Sequence[int],
    *,
    allow_system: bool,
    long_transaction: bool = False,
) -> UpsertCounts:
    """Creates or updates one contact per element; at most some thousands, each with an identifier.

    `earlier` is the number of elements with the same identifier that came before each element, in this batch or in
    those before it. Raises as `upsert_contacts`.
    """
    matches = list(enumerate(match_contacts(transaction, contact_list, batch, earlier)))
    unknown = [index for index, contact_id in matches if contact_id is None]
    left_out = _forgotten_and_suppressed(transaction, contact_list, [batch[index] for index in unknown])
    missing = [index for place, index in enumerate(unknown) if place not in left_out]
    present = [(index, contact_id) for index, contact_id in matches if contact_id is not None]
    with _renumbered(missing):
        new = [batch[index] for index in missing]
        create_contacts(
            transaction,
            contact_list,
            new,
            bulk=True,
            allow_system=allow_system,
            long_transaction=long_transaction,
        )
    with _renumbered([index for index, _ in present]):
        updates = [(contact_id, batch[index]) for index, contact_id in present]
        updated = update_contacts(
            transaction,
            contact_list,
            updates,
            bulk=True,
            allow_system=allow_system,
            long_transaction=long_transaction,
        )
    return UpsertCounts(len(missing), updated, len(left_out))


def _forgotten_and_suppressed(session: Session, contact_list: ListSpec, batch: Sequence[ContactAttributes]) -> set[int]:
    """The places of elements with an address that was forgotten while it was blocked or unsubscribed from this list."""
    if not contact_list.has_digests or not batch:
        return set()
    addresses = [
        {normalize_address(kind, attributes[kind]) for kind in ADDRESS_KINDS if attributes.get(kind) is not None}
        for attributes in batch
    ]
    entries = find_unsubscriber_entries(session, contact_list, set[NormalizedAddress]().union(*addresses))
    kept_away = {
        address
        for address in entries.forgotten.values()
        if address in entries.blocked or entries.is_unsubscribed(address)
    }
    return {place for place, element_addresses in enumerate(addresses) if element_addresses & kept_away}


def identifier_of(contact_list: ListSpec) -> AddressKind:
    """The attribute that contacts are found by. Raises `ServiceError` if the list has none."""
    if contact_list.identifier is None:
        detail = "the list has no Email or Mobile Phone field, so contacts cannot be matched"
        raise ServiceError("list_address_field_missing", collection="contacts", index=0, detail=detail)
    return contact_list.identifier


def key_of(kind: AddressKind, attributes: ContactAttributes) -> str:
    """The identifier in the form in which it is compared."""
    return normalize_address(kind, attributes[kind]).key


def unidentified(kind: AddressKind, index: int = 0) -> FieldError:
    """The error of an element without its identifier."""
    detail = f"{kind} is required, because it identifies the contacts of this list."
    return FieldError("required", kind, "contacts", index, detail)


def match_contacts(
    session: Session, contact_list: ListSpec, batch: Sequence[ContactAttributes], earlier: Sequence[int]
) -> list[int | None]:
    """The id of the contact that each element matches, None if there is none. See `upsert_batch` for `earlier`: no two
    elements match the same contact."""
    kind = identifier_of(contact_list)
    keys = [key_of(kind, attributes) for attributes in batch]
    column = ADDRESS_COLUMNS[kind]
    statement = (
        select(column, Contact.id)
        .where(Contact.list_id == contact_list.id, in_json(column, all_forms(keys)))
        .order_by(Contact.creation_time, Contact.id)
    )
    ids_by_key: defaultdict[str, list[int]] = defaultdict(list)
    for key, contact_id in session.execute(statement):
        ids_by_key[normalize_address(kind, key).key].append(contact_id)
    places = zip((ids_by_key.get(key, ()) for key in keys), earlier, strict=True)
    return [ids[place] if place < len(ids) else None for ids, place in places]


def _check_identified(kind: AddressKind, contacts: Sequence[ContactAttributes]) -> None:
    errors = [unidentified(kind, index) for index, attributes in enumerate(contacts) if attributes.get(kind) is None]
    if errors:
        raise ServiceError.of(errors)


@contextmanager
def _renumbered(positions: Sequence[int]) -> Iterator[None]:
    """The errors of some elements, with positions among all."""
    try:
        yield
    except ServiceError as error:
        errors = [each if each.index is None else replace(each, index=positions[each.index]) for each in error.errors]
        raise ServiceError.of(errors, conflict_fields=error.conflict_fields) from None
