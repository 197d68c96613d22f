"""Contacts by address for a send: those in the list are found, missing ones are created (docs/sending.md#recipients).

A contact that is created here has the flags, events and triggers of one created through the API. Two sends at the same
moment to a new address create one contact. If the address is the list's unique identifier, the unique index ensures
that; otherwise the transaction that creates the contact locks the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, String, bindparam, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, all_forms, normalize_address
from app.clock import this_second
from app.contacts.counts import count_in_list
from app.contacts.create import shared_columns
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_found
from app.contacts.state import BLANK_CONTACT, ContactState, ContactWrite, state_after
from app.contacts.subscriptions import ADDRESS_COLUMNS, lock_addresses
from app.contacts.triggers import fire
from app.contacts.unsubscriber_entries import find_unsubscriber_entries
from app.db.bulk import draw_ids, insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json, json_array
from app.db.models import Contact, List
from app.db.prepared import PreparedStatement, Read
from app.db.public_ids import LIST_ID, has_id
from app.errors import ServiceError
from app.lists.fields import ListSpec


def get_or_create_contacts(
    transaction: Transaction,
    contact_list: ListSpec,
    kind: AddressKind,
    addresses: Collection[str],
    known_ids: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Normalized address -> the id of its contact, for every address; `known` is what `find_by_address` has found.

    Of several contacts with an address the oldest active one is taken. A new contact has its address and nothing else.
    Raises `list_not_mutable` if a contact would have to be created in a system list. A fixed number of statements.
    """
    texts = {normalize_address(kind, text).key: text for text in addresses}
    contact_ids = _find(transaction, contact_list, kind, texts) if known_ids is None else dict(known_ids)
    if len(contact_ids) == len(texts):
        return contact_ids
    check_mutable(contact_list)
    if contact_list.unique_kind != kind:
        lock_lists(transaction, contact_list.account_id, [contact_list.id])
        contact_ids |= _find(transaction, contact_list, kind, texts.keys() - contact_ids.keys())
    missing = {key: text for key, text in texts.items() if key not in contact_ids}
    return contact_ids | _create(transaction, contact_list, kind, missing)


def check_mutable(contact_list: ListSpec) -> None:
    """Raises `list_not_mutable` for a system list, in which a send creates no contacts."""
    if contact_list.system:
        detail = "list_id: this is a system list, so recipients that are not in it cannot be created."
        raise ServiceError("list_not_mutable", field="list_id", detail=detail)


def planned_contacts(
    session: Session, contact_list: ListSpec, kind: AddressKind, addresses: Collection[str], known_keys: Collection[str]
) -> dict[str, ContactState]:
    """Normalized address -> the contact that `get_or_create_contacts` would create, for every address that is not
    `known`. Raises `list_not_mutable` as that does. One select, and none if all are known."""
    texts = {normalize_address(kind, text).key: text for text in addresses}
    missing = {key: NormalizedAddress(kind, key) for key in texts.keys() - set(known_keys)}
    if not missing:
        return {}
    check_mutable(contact_list)
    moment = this_second()
    entries = find_unsubscriber_entries(session, contact_list, missing.values())
    shared = shared_columns(contact_list, moment)
    return {
        key: {
            **shared,
            **state_after(contact_list, ContactWrite.of(0, BLANK_CONTACT, {kind: texts[key]}), entries, {}, moment),
        }
        for key in missing
    }


def find_by_address(kind: AddressKind, addresses: Collection[str], *, account_id: int, list_id: int) -> Read:
    """The statement that finds the contacts with these addresses in a list of the account: rows for
    `ids_by_address`."""
    return _find_keys(kind, {normalize_address(kind, text).key for text in addresses}, account_id, list_id)


def _find_keys(kind: AddressKind, keys: Collection[str], account_id: int, list_id: int) -> Read:
    return FIND_STATEMENTS[kind], {"account_id": account_id, "list_id": list_id, "keys": json_array(all_forms(keys))}


def _find(transaction: Transaction, contact_list: ListSpec, kind: AddressKind, keys: Collection[str]) -> dict[str, int]:
    statement, values = _find_keys(kind, keys, contact_list.account_id, contact_list.id)
    return ids_by_address(kind, statement.rows(transaction, **values))


def ids_by_address(kind: AddressKind, rows: Iterable[Sequence[Any]]) -> dict[str, int]:
    """Normalized address -> the id of its contact, from the rows of an address as it is stored and an id."""
    return {normalize_address(kind, stored).key: contact_id for stored, contact_id in rows}


def _find_statement(kind: AddressKind) -> PreparedStatement:
    # A later row replaces an earlier one with the same address: the oldest active one comes last.
    return PreparedStatement(
        select(ADDRESS_COLUMNS[kind], Contact.id)
        .join(List, List.id == Contact.list_id)
        .where(
            has_id(List, bindparam("account_id", type_=BigInteger), LIST_ID),
            in_json(ADDRESS_COLUMNS[kind], bindparam("keys", type_=String)),
        )
        .order_by(Contact.is_active, Contact.creation_time.desc(), Contact.id.desc())
    )


FIND_STATEMENTS: dict[AddressKind, PreparedStatement] = {kind: _find_statement(kind) for kind in ADDRESS_KINDS}


def lock_lists(transaction: Transaction, account_id: int, list_ids: Collection[int]) -> None:
    """Locks lists of the account until the end of the transaction. Foreign keys to them do not wait for this lock."""
    locked = select(List.id).where(List.account_id == account_id, List.id.in_(list_ids)).order_by(List.id)
    transaction.connection().execute(locked.with_for_update(key_share=True))


def _create(
    transaction: Transaction, contact_list: ListSpec, kind: AddressKind, missing: Mapping[str, str]
) -> dict[str, int]:
    if not missing:
        return {}
    lock_addresses(transaction, contact_list)
    moment = this_second()
    drawn = dict(zip(missing, draw_ids(transaction, Contact, len(missing)), strict=True))
    addresses = {key: NormalizedAddress(kind, key) for key in missing}
    entries = find_unsubscriber_entries(transaction, contact_list, addresses.values())
    restore_found(transaction, contact_list.account_id, entries, addresses.values())
    # In the same order for all requests: of two that create the same contacts one waits, without a deadlock.
    writes = {key: ContactWrite.of(0, BLANK_CONTACT, {kind: text}) for key, text in sorted(missing.items())}
    rows = [
        {"id": drawn[key], **state_after(contact_list, write, entries, {}, moment)} for key, write in writes.items()
    ]
    insert_new_rows(transaction, Contact, rows, shared_columns(contact_list, moment))
    present = _find(transaction, contact_list, kind, missing) if entries.unique_kind == kind else drawn
    created = [(contact_list.id, drawn[key]) for key in missing if present.get(key) == drawn[key]]
    count_in_list(transaction, contact_list, len(created))
    record_contact_events(transaction, contact_list.account_id, "created", created, moment)
    fire(transaction, contact_list, "created", [contact_id for _, contact_id in created])
    # A contact that was there at the insert and is deleted by the time of the lookup is created after all.
    return present | _create(
        transaction, contact_list, kind, {key: missing[key] for key in missing.keys() - present.keys()}
    )
