"""Adding suppressions, many at once: the entries, the contacts that have the addresses, and the events, in a fixed
number of statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, Block, block_entries, blocked_among
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import lock_subscriptions, unsubscribe_entries
from app.contacts.unsubscriber_entries import lists_of_entries
from app.db.database import Transaction
from app.db.models import List
from app.db.public_ids import has_any_id
from app.ids import shown_id
from app.suppressions.states import BLOCKED, UNSUBSCRIBED


class NewSuppression(NamedTuple):
    """An address that is to be unsubscribed, from a list or account-wide for None, or blocked for a reason."""

    address: NormalizedAddress
    state: str
    list_id: int | None = None
    reason: str = ""


class AddedCounts(NamedTuple):
    """How many entries were not there before, and how many contacts have changed with them."""

    entries: int
    contacts: int


def add_suppressions(transaction: Transaction, account_id: int, new: Collection[NewSuppression]) -> AddedCounts:
    """Adds the entries; those that are there stay as they are, unless the reason is now a complaint. Of two blocks of
    one address likewise the first counts."""
    lock_subscriptions(transaction, account_id)
    off = {(entry.address, entry.list_id): None for entry in new if entry.state == UNSUBSCRIBED}
    added = len(off.keys() - _entries_of(transaction, account_id, [address for address, _ in off]))
    changed = unsubscribe_entries(transaction, account_id, list(off), this_second())
    written, blocked = block_entries(transaction, _blocks(account_id, new))
    contacts = {*changed, *blocked.get(account_id, ())}
    record_contact_events(transaction, account_id, "updated", sorted(contacts), this_second())
    return AddedCounts(added + len(written), len(contacts))


def count_new(session: Session, account_id: int, new: Collection[NewSuppression]) -> int:
    """How many of the entries are not there."""
    off = {(entry.address, entry.list_id) for entry in new if entry.state == UNSUBSCRIBED}
    blocks = {entry.address for entry in new if entry.state == BLOCKED}
    entries = _entries_of(session, account_id, [address for address, _ in off])
    return len(off - entries) + len(blocks - (blocked_among(session, account_id, blocks) if blocks else blocks))


def stored_list_ids(transaction: Transaction, account_id: int, ids: Collection[int]) -> dict[int, int]:
    """The lists of the account with these ids, as everybody outside names them, by what names them. They cannot be
    deleted before the end of the transaction."""
    if not ids:
        return {}
    lists = select(List.id).where(has_any_id(List, account_id, sorted(ids))).order_by(List.id)
    locked = transaction.scalars(lists.with_for_update(read=True, key_share=True))
    return {shown_id(list_id): list_id for list_id in locked}


def _entries_of(
    session: Session, account_id: int, addresses: Collection[NormalizedAddress]
) -> set[tuple[NormalizedAddress, int | None]]:
    if not addresses:
        return set()
    entries = lists_of_entries(session, account_id, addresses)
    return {(address, list_id) for address, lists in entries.items() for list_id in lists}


def _blocks(account_id: int, new: Iterable[NewSuppression]) -> dict[AccountAddress, Block]:
    blocks: dict[AccountAddress, Block] = {}
    for entry in new:
        if entry.state == BLOCKED:
            address, block = AccountAddress(account_id, *entry.address), Block(entry.reason)
            blocks[address] = block if entry.reason == COMPLAINT else blocks.get(address, block)
    return blocks
