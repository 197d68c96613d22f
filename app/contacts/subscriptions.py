"""The account's unsubscribers list, and the flags of contacts that reflect it (decisions: 5 and 11, Contacts).

An entry says that an address wants no messages: of one list, or of the whole account. A contact's flag is false when
an entry holds for its address in its list. Both change here, together, for many addresses at once; flags of contacts
that the request does not name follow too, because two contacts may have the same address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast

from sqlalchemy import ColumnElement, and_, delete, exists, or_, select, update
from sqlalchemy.orm import Session

from app.addresses import email_key
from app.contacts.events import ContactKey
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.locks import advisory_lock
from app.db.models import Contact, Unsubscriber

Kind = Literal["email", "mobile"]
KINDS: tuple[Kind, ...] = ("email", "mobile")
KEYS: dict[Kind, Any] = {"email": Contact.email_key, "mobile": Contact.mobile}
FLAGS: dict[Kind, Any] = {"email": Contact.subscribed_email, "mobile": Contact.subscribed_mobile}


class Address(NamedTuple):
    """An email or mobile in the form in which it is compared."""

    kind: Kind
    key: str


def address_of(kind: Kind, text: str | None) -> Address | None:
    """The address as it is compared; None for none."""
    if text is None:
        return None
    return Address(kind, email_key(text) if kind == "email" else text)


@dataclass(frozen=True, slots=True)
class Entries:
    """What the unsubscribers list says of some addresses, seen from one list."""

    list_id: int
    found: Mapping[Address, Collection[int | None]]
    """Address -> the lists that it has unsubscribed from; None stands for the whole account."""

    def anywhere(self, address: Address) -> bool:
        """Whether there is any entry."""
        return address in self.found

    def under_list(self, address: Address) -> bool:
        """Whether there is an entry of this very list."""
        return self.list_id in self.found.get(address, ())

    def hold(self, address: Address) -> bool:
        """Whether this list must not write to the address: by an entry of its own or an account-wide one."""
        lists = self.found.get(address, ())
        return self.list_id in lists or None in lists


def lock_subscriptions(transaction: Transaction, account_id: int, *, lasting: bool = False) -> None:
    """Lets one transaction at a time change what the account's addresses want; it comes before any other lock.

    Such a change reaches contacts that the request does not name: two of them would wait for each other's. See
    `lock_for_writes` for `lasting`.
    """
    advisory_lock(transaction, "subscriptions", account_id)
    if not lasting:
        advisory_lock(transaction, "addresses", account_id)


def lock_addresses(transaction: Transaction, account_id: int) -> None:
    """Keeps what the account's addresses want as it is, while contacts get addresses. Many may hold it at once.

    Without it, a change of an address would miss the contact that is not committed yet, and the contact the change.
    """
    advisory_lock(transaction, "addresses", account_id, shared=True)


def lock_for_writes(
    transaction: Transaction, account_id: int, drafts: Collection[Mapping[str, Any]], *, lasting: bool
) -> None:
    """The one of the two locks that writing these attributes to contacts needs, if any.

    A `lasting` transaction, such as an import, would keep everybody waiting who gives a contact an address. It leaves
    the lock out: of who unsubscribes while it runs, the flag may stay, but nothing is sent to them all the same.
    """
    if any("subscribed" in draft for draft in drafts):
        lock_subscriptions(transaction, account_id, lasting=lasting)
    elif not lasting and any(kind in draft for draft in drafts for kind in KINDS):
        lock_addresses(transaction, account_id)


def entries_of(session: Session, account_id: int, list_id: int, addresses: Collection[Address]) -> Entries:
    """The entries of the addresses: one statement, none for no addresses."""
    found: dict[Address, set[int | None]] = {}
    if addresses:
        statement = select(Unsubscriber.kind, Unsubscriber.address, Unsubscriber.list_id).where(
            Unsubscriber.account_id == account_id, _among(addresses)
        )
        for row in session.connection().execute(statement):
            found.setdefault(Address(cast(Kind, row.kind), row.address), set()).add(row.list_id)
    return Entries(list_id, found)


def follow_wishes(
    transaction: Transaction, account_id: int, entries: Entries, wishes: Mapping[Address, bool], moment: datetime
) -> list[ContactKey]:
    """Makes the entries what was asked for (True: subscribed), and the flags of all contacts of the list follow.

    Returns the contacts whose flag changed by this.
    """
    off = [address for address, wanted in wishes.items() if not wanted and not entries.under_list(address)]
    on = [address for address, wanted in wishes.items() if wanted and entries.hold(address)]
    return [
        *put_on(transaction, account_id, entries.list_id, off, moment),
        *take_off(transaction, account_id, entries.list_id, on, moment),
    ]


def put_on(
    transaction: Transaction, account_id: int, list_id: int | None, addresses: Collection[Address], moment: datetime
) -> list[ContactKey]:
    """Puts the addresses on the unsubscribers list: of one list, or of the account for None.

    Returns the contacts whose flag went to false.
    """
    rows = [
        {"account_id": account_id, "list_id": list_id, "kind": kind, "address": key, "creation_time": moment}
        for kind, key in addresses
    ]
    insert_new_rows(transaction, Unsubscriber, rows)
    return _set_flags(transaction, account_id, list_id, addresses, wanted=False, moment=moment)


def take_off(
    transaction: Transaction, account_id: int, list_id: int | None, addresses: Collection[Address], moment: datetime
) -> list[ContactKey]:
    """Takes the addresses off the list's unsubscribers and off the account-wide ones; for None off the latter alone.

    Who comes back to one list has not come back to the others: where an account-wide entry goes, the other lists
    that hold the address get entries of their own. Returns the contacts whose flag went to true.
    """
    if not addresses:
        return []
    goes: ColumnElement[bool] = Unsubscriber.list_id.is_(None)
    if list_id is not None:
        _keep_elsewhere(transaction, account_id, list_id, addresses, moment)
        goes = or_(goes, Unsubscriber.list_id == list_id)
    transaction.execute(
        delete(Unsubscriber).where(Unsubscriber.account_id == account_id, _among(addresses), goes),
        execution_options={"synchronize_session": False},
    )
    return _set_flags(transaction, account_id, list_id, addresses, wanted=True, moment=moment)


def _among(addresses: Iterable[Address]) -> ColumnElement[bool]:
    """Entries of these addresses."""
    by_kind = _by_kind(addresses)
    return or_(
        *(and_(Unsubscriber.kind == kind, in_json(Unsubscriber.address, keys)) for kind, keys in by_kind.items())
    )


def _by_kind(addresses: Iterable[Address]) -> dict[Kind, list[str]]:
    found: dict[Kind, list[str]] = {}
    for kind, key in addresses:
        found.setdefault(kind, []).append(key)
    return found


def _keep_elsewhere(
    transaction: Transaction, account_id: int, list_id: int, addresses: Collection[Address], moment: datetime
) -> None:
    rows = []
    for kind, keys in _by_kind(addresses).items():
        statement = (
            select(Contact.list_id, KEYS[kind])
            .distinct()
            .where(
                Contact.account_id == account_id,
                Contact.list_id != list_id,
                in_json(KEYS[kind], keys),
                _entry(kind, Unsubscriber.list_id.is_(None)),
            )
        )
        rows += [
            {"account_id": account_id, "list_id": other, "kind": kind, "address": key, "creation_time": moment}
            for other, key in transaction.execute(statement)
        ]
    insert_new_rows(transaction, Unsubscriber, rows)


def _set_flags(
    transaction: Transaction,
    account_id: int,
    list_id: int | None,
    addresses: Iterable[Address],
    *,
    wanted: bool,
    moment: datetime,
) -> list[ContactKey]:
    """Sets the flags of the contacts that have the addresses: in the list, or in all lists of the account."""
    changed: list[ContactKey] = []
    for kind, keys in _by_kind(addresses).items():
        conditions = [Contact.account_id == account_id, in_json(KEYS[kind], keys), FLAGS[kind].is_not(wanted)]
        if list_id is not None:
            conditions.append(Contact.list_id == list_id)
        if wanted:
            here = or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == Contact.list_id)
            conditions.append(~_entry(kind, here))
        statement = (
            update(Contact)
            .where(*conditions)
            .values({FLAGS[kind]: wanted, Contact.last_modified_time: moment})
            .returning(Contact.list_id, Contact.id)
        )
        rows = transaction.execute(statement, execution_options={"synchronize_session": False})
        changed += sorted((row.list_id, row.id) for row in rows)
    return changed


def _entry(kind: Kind, which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether the contact's address has an entry of this sort."""
    return exists().where(
        Unsubscriber.account_id == Contact.account_id,
        Unsubscriber.kind == kind,
        Unsubscriber.address == KEYS[kind],
        which,
    )
