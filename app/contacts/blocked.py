"""Blocking addresses, and letting them go: the rows, and the contacts that hold the addresses (decisions: 5 and 12).

`blocked` of a contact is looked up when it is read, so nothing is copied. But whoever keeps contacts in step by
`last_modified_time` or by webhooks has to learn of it: the time moves, and there is an `updated` event. Automation
triggers do not fire; they are those of the REST API.

All addresses of a transaction at once, whatever their accounts, in a fixed number of statements. Contacts are locked in
the order of their ids, so that two transactions that block the same addresses do not wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple, cast

from sqlalchemy import ColumnElement, Delete, delete, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from app.clock import this_second
from app.contacts.events import ContactKey
from app.contacts.subscriptions import KEYS, Kind
from app.db.bulk import is_postgresql
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import BlockedAddress, Contact

Touched = dict[int, list[ContactKey]]
"""Account id -> its contacts that have changed, for the caller to announce."""


class AccountAddress(NamedTuple):
    """An email address or mobile of an account, in the form in which addresses are compared."""

    account_id: int
    kind: Kind
    key: str


def block_addresses(transaction: Transaction, reasons: Mapping[AccountAddress, str]) -> Touched:
    """Blocks the addresses. One that is blocked already keeps its first reason, and nothing changes by it."""
    if not reasons:
        return {}
    moment = this_second()
    rows = [
        {"account_id": one.account_id, "kind": one.kind, "address": one.key, "reason": reasons[one]}
        for one in sorted(reasons)
    ]
    insert = postgresql.insert if is_postgresql(transaction) else sqlite.insert
    statement = insert(BlockedAddress).values([{**row, "creation_time": moment} for row in rows])
    return _touch(transaction, _changed(transaction, statement.on_conflict_do_nothing()))


def unblock_addresses(transaction: Transaction, addresses: Collection[AccountAddress]) -> tuple[int, Touched]:
    """Lets the addresses get messages again: how many were blocked, and the contacts that have changed."""
    columns = tuple_(BlockedAddress.account_id, BlockedAddress.kind, BlockedAddress.address)
    gone = _changed(transaction, delete(BlockedAddress).where(columns.in_(sorted(addresses)))) if addresses else []
    return len(gone), _touch(transaction, gone)


def _changed(transaction: Transaction, statement: postgresql.Insert | sqlite.Insert | Delete) -> list[AccountAddress]:
    """The addresses of the rows that the statement has written or deleted."""
    returning = statement.returning(BlockedAddress.account_id, BlockedAddress.kind, BlockedAddress.address)
    rows = transaction.execute(returning, execution_options={"synchronize_session": False})
    return [AccountAddress(row.account_id, cast(Kind, row.kind), row.address) for row in rows]


def _touch(transaction: Transaction, changed: Collection[AccountAddress]) -> Touched:
    """Moves the times of the contacts that hold the addresses, and gives them in the order of their ids."""
    if not changed:
        return {}
    held = (
        select(Contact.account_id, Contact.list_id, Contact.id)
        .where(or_(*_holding(changed)))
        .order_by(Contact.id)
        .with_for_update(key_share=True)
    )
    contacts = transaction.execute(held).all()
    if not contacts:
        return {}
    ids = [contact.id for contact in contacts]
    statement = update(Contact).where(in_json(Contact.id, ids)).values(last_modified_time=this_second())
    transaction.execute(statement, execution_options={"synchronize_session": False})
    touched: Touched = defaultdict(list)
    for account_id, list_id, contact_id in contacts:
        touched[account_id].append((list_id, contact_id))
    return touched


def _holding(addresses: Collection[AccountAddress]) -> list[ColumnElement[bool]]:
    by_kind: dict[Kind, list[tuple[int, str]]] = defaultdict(list)
    for one in sorted(addresses):
        by_kind[one.kind].append((one.account_id, one.key))
    return [tuple_(Contact.account_id, KEYS[kind]).in_(pairs) for kind, pairs in by_kind.items()]
