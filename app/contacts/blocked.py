"""Blocking and unblocking addresses: the rows, and the contacts that have the addresses
(docs/contacts.md#blocked-addresses).

`blocked` of a contact is looked up when it is read, so nothing is copied. But clients that synchronise contacts by
`last_modified_time` or by webhooks must see the change: the time is set, and there is an `updated` event. Automation
triggers do not fire; they are those of the REST API.

All addresses of a transaction at once, whatever their accounts, in a fixed number of statements. Contacts are locked in
the order of their ids, so that two transactions that block the same addresses do not wait for each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Delete,
    String,
    Update,
    and_,
    case,
    delete,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from app.addresses import (
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    address_forms,
    normalize_address,
)
from app.clock import this_second
from app.contacts.events import ContactKey
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import BlockedAddress, Contact

PERMANENT_BOUNCE = "permanent bounce"
TEMPORARY_BOUNCES = "repeated temporary bounces"
COMPLAINT = "complaint"
"""Why an address is blocked, unless a person says why."""
OWN_ADDRESS = "[address]"
"""In place of the address in its reply."""


class Block(NamedTuple):
    """Why an address is blocked, by which reply, if a bounce has blocked it, and by which message: the uuid of its
    recipient."""

    reason: str
    reply: str | None = None
    uuid: str | None = None
    since: datetime | None = None
    """Now, if it is None."""


ChangedContacts = dict[int, list[ContactKey]]
"""Account id -> its contacts that have changed, for the caller to record their events."""


def block_addresses(transaction: Transaction, blocks: Mapping[AccountAddress, Block]) -> ChangedContacts:
    """Blocks the addresses. An address that is already blocked does not count as changed and keeps its first reason,
    unless that is now a complaint."""
    return block_entries(transaction, blocks)[1]


def block_entries(
    transaction: Transaction, blocks: Mapping[AccountAddress, Block]
) -> tuple[list[AccountAddress], ChangedContacts]:
    """Blocks the addresses like `block_addresses`. Returns those whose entries were written, and the contacts that have
    changed."""
    if not blocks:
        return [], {}
    moment = this_second()
    rows = [
        {
            **_row_of(form),
            "reason": block.reason,
            "reply": _without(form, block.reply),
            "uuid": block.uuid,
            "creation_time": block.since or moment,
        }
        for form in sorted(blocks)
        for block in [blocks[AccountAddress.of(*form)]]
    ]
    changed = _addresses(
        insert_new_rows(transaction, BlockedAddress, rows, returning=("account_id", "kind", "address"))
    )
    complaints = {address: block.uuid for address, block in blocks.items() if block.reason == COMPLAINT}
    if complaints:
        outweighed = update(BlockedAddress).where(_is_any(complaints), BlockedAddress.reason != COMPLAINT)
        uuid = case(*((_is_any([address]), literal(uuid, String)) for address, uuid in complaints.items()))
        rewritten = _changed(transaction, outweighed.values(reason=COMPLAINT, reply=None, uuid=uuid))
        return [*changed, *rewritten], _mark_modified(transaction, changed)
    return changed, _mark_modified(transaction, changed)


def blocked_among(
    session: Session, account_id: int, addresses: Collection[NormalizedAddress]
) -> set[NormalizedAddress]:
    """The addresses among these that are blocked."""
    columns = BlockedAddress.kind, BlockedAddress.address
    is_any = _is_any([AccountAddress(account_id, *address) for address in addresses])
    return {
        normalize_address(cast(AddressKind, row.kind), row.address)
        for row in session.execute(select(*columns).where(is_any))
    }


def unblock_addresses(transaction: Transaction, addresses: Collection[AccountAddress]) -> tuple[int, ChangedContacts]:
    """Unblocks the addresses; returns how many were blocked, and the contacts that have changed."""
    unblocked, changed = unblock_entries(transaction, _is_any(addresses)) if addresses else ([], {})
    return len(unblocked), changed


def unblock_entries(
    transaction: Transaction, *conditions: ColumnElement[bool]
) -> tuple[list[AccountAddress], ChangedContacts]:
    """Unblocks the addresses whose entries meet the conditions; returns them, and the contacts that have changed."""
    unblocked = _changed(transaction, delete(BlockedAddress).where(*conditions))
    return unblocked, _mark_modified(transaction, unblocked)


def _row_of(address: AccountAddress) -> dict[str, int | str]:
    return {"account_id": address.account_id, "kind": address.kind, "address": address.key}


def _without(address: AccountAddress, reply: str | None) -> str | None:
    """The reply without the address: it is then the same for all that one setting of a relay has blocked."""
    if reply is None:
        return None
    for form in address_forms(address.key):
        reply = re.sub(re.escape(form), OWN_ADDRESS, reply, flags=re.IGNORECASE)
    return reply


def _is_any(addresses: Collection[AccountAddress]) -> ColumnElement[bool]:
    entry = BlockedAddress
    return or_(
        *(
            and_(entry.account_id == account_id, entry.kind == kind, entry.address.in_(keys))
            for (account_id, kind), keys in _by_account_and_kind(addresses).items()
        )
    )


def _changed(transaction: Transaction, statement: Update | Delete) -> list[AccountAddress]:
    """The addresses of the rows that the statement has changed or deleted."""
    returning = statement.returning(BlockedAddress.account_id, BlockedAddress.kind, BlockedAddress.address)
    return _addresses(transaction.execute(returning, execution_options={"synchronize_session": False}))


def _addresses(rows: Iterable[Sequence[Any]]) -> list[AccountAddress]:
    """The addresses of the rows, each once."""
    return list({AccountAddress.of(account_id, kind, address): None for account_id, kind, address in rows})


def _mark_modified(transaction: Transaction, changed: Collection[AccountAddress]) -> ChangedContacts:
    """Sets `last_modified_time` of the contacts that have the addresses; returns them in the order of their ids."""
    if not changed:
        return {}
    locked = (
        select(Contact.account_id, Contact.list_id, Contact.id)
        .where(_has_any_address(changed))
        .order_by(Contact.id)
        .with_for_update(key_share=True)
    )
    contacts = transaction.execute(locked).all()
    if not contacts:
        return {}
    ids = [contact.id for contact in contacts]
    statement = update(Contact).where(in_json(Contact.id, ids)).values(last_modified_time=this_second())
    transaction.execute(statement, execution_options={"synchronize_session": False})
    by_account: ChangedContacts = defaultdict(list)
    for account_id, list_id, contact_id in contacts:
        by_account[account_id].append((list_id, contact_id))
    return by_account


def _has_any_address(addresses: Collection[AccountAddress]) -> ColumnElement[bool]:
    return or_(
        *(
            and_(Contact.account_id == account_id, ADDRESS_COLUMNS[kind].in_(keys))
            for (account_id, kind), keys in _by_account_and_kind(addresses).items()
        )
    )


def _by_account_and_kind(addresses: Collection[AccountAddress]) -> Mapping[tuple[int, AddressKind], list[str]]:
    """The addresses, in all forms in which they may be stored, for a condition on each account and kind: for a list of
    pairs SQLite would read the whole table."""
    keys: dict[tuple[int, AddressKind], list[str]] = defaultdict(list)
    for address in sorted(addresses):
        keys[address.account_id, address.kind].extend(address_forms(address.key))
    return keys
