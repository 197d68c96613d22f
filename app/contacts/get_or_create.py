"""Contacts by address for a send: who is in the list is found, who is not is created (decisions: 5 and 6).

Creating is the same as through the API in all that follows from it: flags, events, triggers. Two sends at the same
moment to a new address create one contact. Where the address is the list's unique identifier, the unique index sees
to that; where it is not, whoever creates locks the list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import String, bindparam, select

from app.automations.triggers import fire
from app.clock import this_second
from app.contacts.create import shared_columns
from app.contacts.events import announce
from app.contacts.state import BLANK, Edit, after
from app.contacts.subscriptions import KEYS, KINDS, Address, Kind, address_of, entries_of, lock_addresses
from app.db.bulk import draw_ids, insert_new_rows
from app.db.database import Transaction
from app.db.in_json import in_json, json_array
from app.db.models import Contact, List
from app.db.prepared import Prepared
from app.errors import ServiceError
from app.lists.fields import ListSpec


def get_or_create_contacts(
    transaction: Transaction, lst: ListSpec, kind: Kind, addresses: Collection[str]
) -> dict[str, int]:
    """Address, in the form in which it is compared -> the id of its contact, for every address given.

    Of several contacts with an address the oldest active one is taken. A new one gets its address and nothing else.
    Raises `list_not_mutable` when a contact would have to be created in a system list. A fixed number of statements.
    """
    wanted = {address.key: text for text in addresses if (address := address_of(kind, text))}
    found = _find(transaction, lst, kind, wanted)
    if len(found) == len(wanted):
        return found
    if lst.system:
        detail = "list_id: this is a system list, so the recipients that are not in it cannot be created."
        raise ServiceError("list_not_mutable", field="list_id", detail=detail)
    if not _is_unique(lst, kind):
        _hold_list(transaction, lst)
        found |= _find(transaction, lst, kind, wanted.keys() - found.keys())
    missing = {key: text for key, text in wanted.items() if key not in found}
    return found | _create(transaction, lst, kind, missing)


def _find(transaction: Transaction, lst: ListSpec, kind: Kind, keys: Collection[str]) -> dict[str, int]:
    return dict(FIND[kind].rows(transaction, list_id=lst.id, keys=json_array(keys)))


def _statement(kind: Kind) -> Prepared:
    # A later row replaces an earlier one with the same address: the oldest active one comes last.
    return Prepared(
        select(KEYS[kind], Contact.id)
        .where(Contact.list_id == bindparam("list_id"), in_json(KEYS[kind], bindparam("keys", type_=String)))
        .order_by(Contact.is_active, Contact.creation_time.desc(), Contact.id.desc())
    )


FIND: dict[Kind, Prepared] = {kind: _statement(kind) for kind in KINDS}


def _is_unique(lst: ListSpec, kind: Kind) -> bool:
    return lst.identifier == kind and not lst.allow_duplicates


def _hold_list(transaction: Transaction, lst: ListSpec) -> None:
    """Until the end of the transaction. Foreign keys to the list do not wait for this lock."""
    transaction.connection().execute(select(List.id).where(List.id == lst.id).with_for_update(key_share=True))


def _create(transaction: Transaction, lst: ListSpec, kind: Kind, missing: Mapping[str, str]) -> dict[str, int]:
    if not missing:
        return {}
    lock_addresses(transaction, lst.account_id)
    moment = this_second()
    drawn = dict(zip(missing, draw_ids(transaction, Contact, len(missing)), strict=True))
    entries = entries_of(transaction, lst.account_id, lst.id, [Address(kind, key) for key in missing])
    states = {key: after(lst, Edit(0, BLANK, {kind: missing[key]}), entries, {}, moment) for key in missing}
    # In one order for all requests: two that create the same contacts wait for each other, never both.
    rows = [{"id": drawn[key], **states[key]} for key in sorted(states)]
    insert_new_rows(transaction, Contact, rows, shared_columns(lst, moment))
    present = _find(transaction, lst, kind, missing) if _is_unique(lst, kind) else drawn
    created = [(lst.id, drawn[key]) for key in missing if present.get(key) == drawn[key]]
    announce(transaction, lst.account_id, "created", created, moment)
    fire(transaction, lst.account_id, "created", created)
    # Who was there when we wrote, and is gone when we look, is created after all.
    return present | _create(transaction, lst, kind, {key: missing[key] for key in missing.keys() - present.keys()})
