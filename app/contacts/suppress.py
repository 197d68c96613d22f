"""Suppressing addresses other than by the API: unsubscribe links, stop words, bounces and the command line.

Unsubscribing is the recipient's decision and shows in `subscribed`; blocking follows from bounces and complaints or is
the operator's decision. Both change the contacts that have the address, and webhooks receive an event
(docs/contacts.md#blocked-addresses). Automation triggers fire for neither: they are those of the REST API.
"""

from __future__ import annotations

from sqlalchemy import delete

from app.addresses import AccountAddress, AddressKind, address_forms, normalize_address
from app.clock import this_second
from app.contacts.blocked import Block, block_addresses, block_entries, unblock_addresses
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_address
from app.contacts.subscriptions import lock_subscriptions, resubscribe_addresses, unsubscribe_addresses
from app.db.database import Transaction
from app.db.models import SoftBounces


def unsubscribe(
    transaction: Transaction,
    account_id: int,
    kind: AddressKind,
    address: str,
    list_id: int | None,
    *,
    block_reason: str | None = None,
    uuid: str | None = None,
) -> int:
    """Adds the address to the account's unsubscribers list: for a list, or account-wide for None. With a reason it is
    also blocked: a contact that changes by both gets one event. `uuid` is that of the message that led to it.

    Returns how many contacts were subscribed before.
    """
    lock_subscriptions(transaction, account_id)
    moment, normalized = this_second(), normalize_address(kind, address)
    changed = unsubscribe_addresses(transaction, account_id, list_id, [normalized], moment, uuid=uuid)
    blocks = {} if block_reason is None else {AccountAddress(account_id, *normalized): Block(block_reason, uuid=uuid)}
    blocked = block_addresses(transaction, blocks).get(account_id, [])
    record_contact_events(transaction, account_id, "updated", [*changed, *blocked], moment)
    return len(changed)


def resubscribe(transaction: Transaction, account_id: int, kind: AddressKind, address: str, list_id: int | None) -> int:
    """Deletes the address's entries: for a list its own and the account-wide one, for None the account-wide one alone.

    Returns how many contacts are subscribed again.
    """
    lock_subscriptions(transaction, account_id)
    moment, normalized = this_second(), normalize_address(kind, address)
    restore_address(transaction, account_id, normalized)
    changed = resubscribe_addresses(transaction, account_id, list_id, [normalized], moment)
    record_contact_events(transaction, account_id, "updated", changed, moment)
    return len(changed)


def block(transaction: Transaction, account_id: int, kind: AddressKind, address: str, reason: str) -> bool:
    """Blocks the address for the whole account; an address that is already blocked keeps its reason, unless that is
    now a complaint. Returns whether its entry was written."""
    written, changed = block_entries(transaction, {AccountAddress.of(account_id, kind, address): Block(reason)})
    record_contact_events(transaction, account_id, "updated", changed.get(account_id, ()), this_second())
    return bool(written)


def unblock(transaction: Transaction, account_id: int, kind: AddressKind, address: str) -> bool:
    """Unblocks the address and resets its soft bounces; returns whether it was blocked."""
    unblocked = AccountAddress.of(account_id, kind, address)
    restore_address(transaction, account_id, normalize_address(kind, address))
    forget_soft_bounces(transaction, unblocked)
    count, changed = unblock_addresses(transaction, [unblocked])
    record_contact_events(transaction, account_id, "updated", changed.get(account_id, ()), this_second())
    return count > 0


def forget_soft_bounces(transaction: Transaction, address: AccountAddress) -> None:
    """Resets the count of soft bounces of an address that is unblocked."""
    counts = delete(SoftBounces).where(
        SoftBounces.account_id == address.account_id,
        SoftBounces.kind == address.kind,
        SoftBounces.address.in_(address_forms(address.key)),
    )
    transaction.execute(counts, execution_options={"synchronize_session": False})
