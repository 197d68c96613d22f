"""Addresses that get no messages, by other ways than the API: links, stop words, bounces and the command line.

Unsubscribing is a wish of the person and shows in `subscribed`; blocking is what the service learnt of an address. By
both the contacts that hold the address change, and webhooks hear of it (decisions: 9 and 12). Automation triggers fire
for neither: they are those of the REST API.
"""

from __future__ import annotations

from sqlalchemy import delete

from app.clock import this_second
from app.contacts.blocked import AccountAddress, block_addresses, unblock_addresses
from app.contacts.events import announce
from app.contacts.subscriptions import Address, Kind, address_of, lock_subscriptions, put_on, take_off
from app.db.database import Transaction
from app.db.models import AddressTrouble


def unsubscribe(
    transaction: Transaction,
    account_id: int,
    kind: Kind,
    address: str,
    list_id: int | None,
    *,
    block_reason: str | None = None,
) -> int:
    """Puts the address on the account's unsubscribers list: under a list, or account-wide for None. With a reason it
    is blocked, too: a contact that changes by both is told of once.

    Returns how many contacts were subscribed until now.
    """
    lock_subscriptions(transaction, account_id)
    moment, wanted = this_second(), _address(kind, address)
    changed = put_on(transaction, account_id, list_id, [wanted], moment)
    reasons = {} if block_reason is None else {AccountAddress(account_id, *wanted): block_reason}
    blocked = block_addresses(transaction, reasons).get(account_id, [])
    announce(transaction, account_id, "updated", [*changed, *blocked], moment)
    return len(changed)


def resubscribe(transaction: Transaction, account_id: int, kind: Kind, address: str, list_id: int | None) -> int:
    """Takes the address off: for a list its own entry and an account-wide one, for None the account-wide one alone.

    Returns how many contacts are subscribed again.
    """
    lock_subscriptions(transaction, account_id)
    moment = this_second()
    changed = take_off(transaction, account_id, list_id, [_address(kind, address)], moment)
    announce(transaction, account_id, "updated", changed, moment)
    return len(changed)


def block(transaction: Transaction, account_id: int, kind: Kind, address: str, reason: str) -> None:
    """Blocks the address for the whole account; the reason of one that is blocked already stays."""
    touched = block_addresses(transaction, {AccountAddress(account_id, *_address(kind, address)): reason})
    announce(transaction, account_id, "updated", touched.get(account_id, ()), this_second())


def unblock(transaction: Transaction, account_id: int, kind: Kind, address: str) -> bool:
    """Lets the address get messages again, its bounces forgotten; tells whether it was blocked."""
    wanted = _address(kind, address)
    troubles = delete(AddressTrouble).where(
        AddressTrouble.account_id == account_id,
        AddressTrouble.kind == wanted.kind,
        AddressTrouble.address == wanted.key,
    )
    transaction.execute(troubles, execution_options={"synchronize_session": False})
    count, touched = unblock_addresses(transaction, [AccountAddress(account_id, *wanted)])
    announce(transaction, account_id, "updated", touched.get(account_id, ()), this_second())
    return count > 0


def _address(kind: Kind, text: str) -> Address:
    found = address_of(kind, text)
    if found is None:
        raise ValueError("an address is needed")
    return found
