"""Addresses that get no messages, by other ways than the API: links, stop words, bounces and the command line.

Unsubscribing is a wish of the person and shows in `subscribed`, so contacts change by it and webhooks hear of it.
Blocking is what the service learnt of an address; contacts only reflect it: `blocked` is looked up when a contact is
read, `last_modified_time` stays, and there is no event (decisions: 5 and 9). Automation triggers fire for neither:
they are those of the REST API.
"""

from __future__ import annotations

from sqlalchemy import delete

from app.clock import this_second
from app.contacts.announce import announce
from app.contacts.subscriptions import Address, Kind, address_of, lock_subscriptions, put_on, take_off
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import AddressTrouble, BlockedAddress


def unsubscribe(transaction: Transaction, account_id: int, kind: Kind, address: str, list_id: int | None) -> int:
    """Puts the address on the account's unsubscribers list: under a list, or account-wide for None.

    Returns how many contacts were subscribed until now.
    """
    lock_subscriptions(transaction, account_id)
    moment = this_second()
    changed = put_on(transaction, account_id, list_id, [_address(kind, address)], moment)
    announce(transaction, account_id, "updated", changed, moment)
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
    row = {
        "account_id": account_id,
        "kind": kind,
        "address": _address(kind, address).key,
        "reason": reason,
        "creation_time": this_second(),
    }
    insert_new_rows(transaction, BlockedAddress, [row])


def unblock(transaction: Transaction, account_id: int, kind: Kind, address: str) -> bool:
    """Lets the address get messages again, its bounces forgotten; tells whether it was blocked."""
    wanted = _address(kind, address)
    _forget(transaction, AddressTrouble, account_id, wanted)
    return _forget(transaction, BlockedAddress, account_id, wanted)


def _forget(
    transaction: Transaction, model: type[AddressTrouble | BlockedAddress], account_id: int, address: Address
) -> bool:
    statement = (
        delete(model)
        .where(model.account_id == account_id, model.kind == address.kind, model.address == address.key)
        .returning(model.id)
    )
    return transaction.execute(statement, execution_options={"synchronize_session": False}).first() is not None


def _address(kind: Kind, text: str) -> Address:
    found = address_of(kind, text)
    if found is None:
        raise ValueError("an address is needed")
    return found
