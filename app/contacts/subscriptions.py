"""The account's unsubscribers list, and the `subscribed` flags of contacts that reflect it.

An entry unsubscribes an address from one list or from the whole account. A contact's flag is false when an entry
applies to its address in its list. Both are changed here, together, for many addresses at once; the flags of contacts
that the request does not name change too, because two contacts may have the same address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    and_,
    delete,
    exists,
    or_,
    select,
    true,
    update,
)

from app.addresses import ADDRESS_KINDS, AddressKind, NormalizedAddress, all_forms, normalize_address
from app.contacts.events import ContactKey
from app.contacts.unsubscriber_entries import UnsubscriberEntries, by_kind, entries_of
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.locks import IDENTIFIERS, advisory_lock, both_shared_locks
from app.db.models import Contact, Unsubscriber
from app.lists.fields import ListSpec

ADDRESS_COLUMNS: dict[AddressKind, Any] = {"email": Contact.email_key, "mobile": Contact.mobile}
UnsubscriberEntry = tuple[NormalizedAddress, int | None]
"""An address and the list that it has unsubscribed from; None stands for the whole account."""
SUBSCRIBED_COLUMNS: dict[AddressKind, Any] = {"email": Contact.subscribed_email, "mobile": Contact.subscribed_mobile}


def lock_subscriptions(transaction: Transaction, account_id: int, *, long_transaction: bool = False) -> None:
    """Lets one transaction at a time change subscriptions of the account's addresses; taken before any other lock.

    Such a change updates contacts that the request does not name: two transactions would wait for each other's
    contacts. See `lock_for_writes` for `long_transaction`.
    """
    advisory_lock(transaction, "subscriptions", account_id)
    if not long_transaction:
        advisory_lock(transaction, "addresses", account_id)


def lock_addresses(transaction: Transaction, contact_list: ListSpec) -> None:
    """Keeps the subscriptions of the account's addresses, and what distinguishes the contacts of the list, unchanged
    while contacts get addresses. Shared locks.

    Without them, a change of a subscription or of the list would miss a contact that is not committed yet, and the
    contact would miss the change.
    """
    both_shared_locks(transaction, ("addresses", contact_list.account_id), (IDENTIFIERS, contact_list.id))


def lock_for_writes(
    transaction: Transaction, contact_list: ListSpec, written: Collection[Mapping[str, Any]], *, long_transaction: bool
) -> None:
    """Takes the locks that writing these attributes to contacts of the list needs, if any.

    A long transaction, such as a seed, would block every request that gives a contact an address, so it takes no
    lock on addresses: the flag of an address that unsubscribes meanwhile may stay true, but nothing is sent to it,
    because sends check the entries.
    """
    if any("subscribed" in attributes for attributes in written):
        lock_subscriptions(transaction, contact_list.account_id, long_transaction=long_transaction)
    if not any(kind in attributes for attributes in written for kind in ADDRESS_KINDS):
        return
    if long_transaction:
        advisory_lock(transaction, IDENTIFIERS, contact_list.id, shared=True)
    else:
        lock_addresses(transaction, contact_list)


def apply_subscriptions(
    transaction: Transaction,
    account_id: int,
    entries: UnsubscriberEntries,
    subscriptions: Mapping[NormalizedAddress, bool],
    moment: datetime,
) -> list[ContactKey]:
    """Changes the entries, and the flags of all contacts of the list, as requested (True: subscribed).

    Returns the contacts whose flag changed.
    """
    off, on = new_subscriptions(entries, subscriptions)
    return [
        *unsubscribe_addresses(transaction, account_id, entries.list_id, off, moment),
        *resubscribe_addresses(transaction, account_id, entries.list_id, on, moment),
    ]


def new_subscriptions(
    entries: UnsubscriberEntries, subscriptions: Mapping[NormalizedAddress, bool]
) -> tuple[list[NormalizedAddress], list[NormalizedAddress]]:
    """The addresses that get an entry, and those that lose one."""
    off = [address for address, subscribed in subscriptions.items() if not subscribed and not entries.has_own(address)]
    on = [address for address, subscribed in subscriptions.items() if subscribed and entries.is_unsubscribed(address)]
    return off, on


def unsubscribe_addresses(
    transaction: Transaction,
    account_id: int,
    list_id: int | None,
    addresses: Collection[NormalizedAddress],
    moment: datetime,
    *,
    uuid: str | None = None,
) -> list[ContactKey]:
    """Adds entries to the unsubscribers list: for one list, or account-wide for None; `uuid` is that of the message
    that led to it.

    Returns the contacts whose flag became false.
    """
    return unsubscribe_entries(
        transaction, account_id, [(address, list_id) for address in addresses], moment, uuid=uuid
    )


def unsubscribe_entries(
    transaction: Transaction,
    account_id: int,
    entries: Collection[UnsubscriberEntry],
    moment: datetime,
    *,
    uuid: str | None = None,
) -> list[ContactKey]:
    """Adds entries of any lists like `unsubscribe_addresses`, in as many statements as those of one."""
    rows = [{"list_id": list_id, "kind": kind, "address": key} for (kind, key), list_id in entries]
    insert_new_rows(transaction, Unsubscriber, rows, {"account_id": account_id, "uuid": uuid, "creation_time": moment})
    account_wide = [address for address, list_id in entries if list_id is None]
    in_lists = [address for address, list_id in entries if list_id is not None]
    lists = {list_id for _, list_id in entries if list_id is not None}
    return [
        *_set_flags(transaction, account_id, None, account_wide, subscribed=False, moment=moment),
        *_set_flags(transaction, account_id, lists, in_lists, subscribed=False, moment=moment),
    ]


def resubscribe_addresses(
    transaction: Transaction,
    account_id: int,
    list_id: int | None,
    addresses: Collection[NormalizedAddress],
    moment: datetime,
) -> list[ContactKey]:
    """Deletes the list's entries and the account-wide ones; for None the account-wide ones alone.

    An address that resubscribes to one list stays unsubscribed from the others: if an account-wide entry is deleted,
    the other lists that have the address get their own entries. Returns the contacts whose flag became true.
    """
    return resubscribe_entries(transaction, account_id, [(address, list_id) for address in addresses], moment)


def resubscribe_entries(
    transaction: Transaction, account_id: int, entries: Collection[UnsubscriberEntry], moment: datetime
) -> list[ContactKey]:
    """Deletes entries of any lists like `resubscribe_addresses`, in as many statements as those of one; with an entry
    for the whole account, all are for it."""
    if not entries:
        return []
    addresses = list(dict.fromkeys(address for address, _ in entries))
    addresses_by_list: dict[int, set[NormalizedAddress]] = {}
    for address, list_id in entries:
        if list_id is not None:
            addresses_by_list.setdefault(list_id, set()).add(address)
    if addresses_by_list:
        _keep_on_other_lists(transaction, account_id, addresses, addresses_by_list, moment)
    entries_of_lists = (
        and_(Unsubscriber.list_id == list_id, *([] if len(present) == len(addresses) else [entries_of(present)]))
        for list_id, present in addresses_by_list.items()
    )
    # As an operand of IS, since SQLite would read all entries of the account by an index for each alternative.
    deleted = or_(Unsubscriber.list_id.is_(None), *entries_of_lists).is_(true())
    transaction.execute(
        delete(Unsubscriber).where(Unsubscriber.account_id == account_id, entries_of(addresses), deleted),
        execution_options={"synchronize_session": False},
    )
    lists = addresses_by_list.keys() or None
    return _set_flags(transaction, account_id, lists, addresses, subscribed=True, moment=moment)


def delete_unsubscriber_entries(
    transaction: Transaction,
    account_id: int,
    address: NormalizedAddress,
    lists: Mapping[int, int | None],
    moment: datetime,
) -> list[ContactKey]:
    """Deletes these entries of the address, by their ids, and no others; `lists` has their lists.

    Returns the contacts whose flag became true: those to which no other entry applies.
    """
    if not lists:
        return []
    entries = delete(Unsubscriber).where(Unsubscriber.account_id == account_id, in_json(Unsubscriber.id, list(lists)))
    transaction.execute(entries, execution_options={"synchronize_session": False})
    in_lists = {list_id for list_id in lists.values() if list_id is not None}
    concerned = None if None in lists.values() else in_lists
    return _set_flags(transaction, account_id, concerned, [address], subscribed=True, moment=moment)


def _keep_on_other_lists(
    transaction: Transaction,
    account_id: int,
    addresses: Collection[NormalizedAddress],
    resubscribed: Mapping[int, Collection[NormalizedAddress]],
    moment: datetime,
) -> None:
    """Gives the addresses with an account-wide entry entries of the lists that have them, without those of the lists
    that they are `resubscribed` to."""
    addresses_by_list: dict[int, set[NormalizedAddress]] = {}
    is_wide: Callable[[AddressKind], ColumnElement[bool]] = partial(has_entry, condition=Unsubscriber.list_id.is_(None))
    if len(all_forms(address.key for address in addresses)) > len(addresses):
        addresses, is_wide = _account_wide(transaction, account_id, addresses), lambda _: true()
    for kind, keys in by_kind(addresses).items():
        statement = (
            select(Contact.list_id, ADDRESS_COLUMNS[kind])
            .distinct()
            .where(
                Contact.account_id == account_id,
                in_json(ADDRESS_COLUMNS[kind], keys),
                is_wide(kind),
            )
        )
        for list_id, key in transaction.execute(statement):
            if (address := normalize_address(kind, key)) not in resubscribed.get(list_id, ()):
                addresses_by_list.setdefault(list_id, set()).add(address)
    rows = [
        {"account_id": account_id, "list_id": other, "kind": kind, "address": key, "creation_time": moment}
        for other, kept in addresses_by_list.items()
        for kind, key in kept
    ]
    insert_new_rows(transaction, Unsubscriber, rows)


def _account_wide(
    transaction: Transaction, account_id: int, addresses: Collection[NormalizedAddress]
) -> Collection[NormalizedAddress]:
    """The addresses that are unsubscribed from the whole account, in whatever form that is stored."""
    is_account_wide = Unsubscriber.account_id == account_id, Unsubscriber.list_id.is_(None), entries_of(addresses)
    rows = transaction.execute(select(Unsubscriber.kind, Unsubscriber.address).where(*is_account_wide))
    return {normalize_address(cast(AddressKind, kind), key) for kind, key in rows}


def _set_flags(
    transaction: Transaction,
    account_id: int,
    lists: Collection[int] | None,
    addresses: Iterable[NormalizedAddress],
    *,
    subscribed: bool,
    moment: datetime,
) -> list[ContactKey]:
    """Sets the flags of the contacts that have the addresses: in the lists, or in all lists of the account. The entries
    say in which of several lists each address is unsubscribed."""
    changed: list[ContactKey] = []
    for kind, keys in by_kind(addresses).items():
        conditions = [
            Contact.account_id == account_id,
            in_json(ADDRESS_COLUMNS[kind], keys),
            SUBSCRIBED_COLUMNS[kind].is_not(subscribed),
        ]
        if lists is not None:
            (first, *others) = lists or {0}
            conditions.append(in_json(Contact.list_id, lists) if others else Contact.list_id == first)
        applies = has_entry(kind, or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == Contact.list_id))
        if subscribed:
            conditions.append(~applies)
        elif lists is not None and len(lists) > 1:
            conditions.append(applies)
        statement = (
            update(Contact)
            .where(*conditions)
            .values({SUBSCRIBED_COLUMNS[kind]: subscribed, Contact.last_modified_time: moment})
            .returning(Contact.list_id, Contact.id)
        )
        rows = transaction.execute(statement, execution_options={"synchronize_session": False})
        changed += sorted((row.list_id, row.id) for row in rows)
    return changed


def has_entry(kind: AddressKind, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether the contact's address has an entry that meets the condition."""
    return exists().where(
        Unsubscriber.account_id == Contact.account_id,
        Unsubscriber.kind == kind,
        Unsubscriber.address == ADDRESS_COLUMNS[kind],
        condition,
    )
