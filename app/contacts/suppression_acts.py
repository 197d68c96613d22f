"""Adding and removing suppressions by hand and from files, on the command line and in the console: a change and its
entry in the audit log, in one transaction (docs/audit.md#actions). What recipients, bounces and reports do has no
entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.orm import Session

from app.addresses import AccountAddress, NormalizedAddress
from app.audit.record import Act, record
from app.clock import this_second
from app.contacts.acts import suppression_act
from app.contacts.blocked import Block, block_addresses, blocked_among
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_address
from app.contacts.subscriptions import lock_subscriptions, unsubscribe_addresses
from app.contacts.suppress import block, resubscribe, unblock, unsubscribe
from app.contacts.unsubscriber_entries import lists_of_entries
from app.db.database import Transaction
from app.infrastructure.digests import address_digest

UNSUBSCRIBED, BLOCKED = "unsubscribed", "blocked"


def add_unsubscribed(
    transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress, list_id: int | None
) -> int:
    """Unsubscribes the address, from the list, or account-wide for None. Returns how many contacts have changed."""
    lock_subscriptions(transaction, account_id)
    has_entry = list_id in lists_of_entries(transaction, account_id, [address]).get(address, ())
    changed = unsubscribe(transaction, account_id, *address, list_id)
    if changed or not has_entry:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.added", account_id, digest, UNSUBSCRIBED, list_id))
    return changed


def remove_unsubscribed(
    transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress, list_id: int | None
) -> int:
    """Resubscribes the address: to the list and account-wide, or for None account-wide alone. Returns how many contacts
    have changed."""
    lock_subscriptions(transaction, account_id)
    restore_address(transaction, account_id, address)
    lists = lists_of_entries(transaction, account_id, [address]).get(address, set())
    changed = resubscribe(transaction, account_id, *address, list_id)
    if changed or lists & {None, list_id}:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.removed", account_id, digest, UNSUBSCRIBED, list_id))
    return changed


def add_blocked(
    transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress, reason: str
) -> bool:
    """Blocks the address; returns whether it was not blocked before."""
    is_new = block(transaction, account_id, *address, reason)
    if is_new:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.added", account_id, digest, BLOCKED))
    return is_new


def remove_blocked(transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress) -> bool:
    """Unblocks the address; returns whether it was blocked."""
    was_blocked = unblock(transaction, account_id, *address)
    if was_blocked:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.removed", account_id, digest, BLOCKED))
    return was_blocked


# Many at once, from a file.

BATCH = 1000

Address = TypeVar("Address")


@dataclass(frozen=True, slots=True)
class NewSuppressionRow:
    """A row of a file that is valid: `list_id` None is account-wide."""

    address: NormalizedAddress
    state: str
    list_id: int | None
    list_name: str | None
    reason: str


def new_rows(session: Session, account_id: int, rows: Sequence[NewSuppressionRow]) -> Sequence[NewSuppressionRow]:
    """Those of the rows that add a suppression: it is not there yet, and no earlier row adds it. Two statements for
    each thousand rows."""
    known: set[tuple[NormalizedAddress, str, int | None]] = set()
    for some in _batches([row.address for row in rows]):
        for address, lists in lists_of_entries(session, account_id, some).items():
            known.update((address, UNSUBSCRIBED, list_id) for list_id in lists)
        known.update((address, BLOCKED, None) for address in blocked_among(session, account_id, some))
    found = []
    for row in rows:
        key = row.address, row.state, row.list_id
        if key not in known:
            known.add(key)
            found.append(row)
    return found


def import_suppressions(transaction: Transaction, account_id: int, rows: Sequence[NewSuppressionRow]) -> None:
    """Adds the suppressions, all or none; those that exist already stay as they are."""
    lock_subscriptions(transaction, account_id)
    moment, added = this_second(), new_rows(transaction, account_id, rows)
    changed = [*_unsubscribe(transaction, account_id, rows), *_block(transaction, account_id, rows)]
    record_contact_events(transaction, account_id, "updated", sorted(changed), moment)
    if added or changed:
        record(transaction, Act("suppression.imported", account_id, counts={"suppressions": len(added)}))


def _unsubscribe(
    transaction: Transaction, account_id: int, rows: Iterable[NewSuppressionRow]
) -> Iterator[tuple[int, int]]:
    by_list: dict[int | None, dict[NormalizedAddress, None]] = {}
    for row in rows:
        if row.state != BLOCKED:
            by_list.setdefault(row.list_id, {})[row.address] = None
    for list_id, addresses in by_list.items():
        for some in _batches(list(addresses)):
            yield from unsubscribe_addresses(transaction, account_id, list_id, some, this_second())


def _block(transaction: Transaction, account_id: int, rows: Iterable[NewSuppressionRow]) -> Iterator[tuple[int, int]]:
    blocked = {AccountAddress(account_id, *row.address): Block(row.reason) for row in rows if row.state == BLOCKED}
    for some in _batches(list(blocked)):
        yield from block_addresses(transaction, {one: blocked[one] for one in some}).get(account_id, [])


def _batches(addresses: list[Address]) -> Iterator[list[Address]]:
    return (addresses[start : start + BATCH] for start in range(0, len(addresses), BATCH))
