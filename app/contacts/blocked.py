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
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Delete,
    Row,
    Select,
    Update,
    and_,
    delete,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session

from app.addresses import (
    ADDRESS_KINDS,
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    address_forms,
    all_forms,
    normalize_address,
)
from app.clock import this_second
from app.contacts.events import ContactKey, record_contact_events
from app.contacts.subscriptions import ADDRESS_COLUMNS
from app.db.address_forms import PREFIX
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.index_hints import planned_for_values
from app.db.models import BlockedAddress, Contact, SoftBounces
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, IsNull, Query
from app.query.fields import Filter, FilterType, Resource

PERMANENT_BOUNCE = "permanent bounce"
TEMPORARY_BOUNCES = "repeated temporary bounces"
COMPLAINT = "complaint"
"""Why an address is blocked, unless a person says why."""
OWN_ADDRESS = "[address]"
"""In place of the address in its reply."""


class Block(NamedTuple):
    """Why an address is blocked, and by which reply, if a bounce has blocked it."""

    reason: str
    reply: str | None = None
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
            "creation_time": block.since or moment,
        }
        for form in sorted(blocks)
        for block in [blocks[AccountAddress.of(*form)]]
    ]
    changed = _addresses(
        insert_new_rows(transaction, BlockedAddress, rows, returning=("account_id", "kind", "address"))
    )
    complaints = [address for address, block in blocks.items() if block.reason == COMPLAINT]
    if complaints:
        outweighed = update(BlockedAddress).where(_is_any(complaints), BlockedAddress.reason != COMPLAINT)
        rewritten = _changed(transaction, outweighed.values(reason=COMPLAINT, reply=None))
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


# All blocked addresses of an account that match a query, part by part, the oldest first, and unblocking them
# (docs/console-contents.md#unblocking-many).

UNSUBSCRIBED, BLOCKED = STATES = ("unsubscribed", "blocked")
SUPPRESSIONS = Resource(
    name="suppression",
    collection="suppressions",
    filters={
        **{kind: Filter(kind, FilterType.EMAIL if kind == "email" else FilterType.STRING) for kind in ADDRESS_KINDS},
        "state": Filter("state", FilterType.ENUM, STATES),
        "reason": Filter("reason", FilterType.STRING),
        "reply": Filter("reply", FilterType.STRING),
        "creation_time": Filter("creation_time", FilterType.TIMESTAMP),
    },
    fields=(),
)
"""What is unsubscribed or blocked; only the latter has a reason and a reply. A filter by the reply is about a part of
it."""
Place = tuple[datetime, int]
"""Creation time and id of an entry: where it is in their order."""
ORDER: tuple[Any, ...] = (BlockedAddress.creation_time, BlockedAddress.id)


def quoting(condition: FilterCondition) -> ColumnElement[bool]:
    """The entries whose reply contains the text of the filter, without regard to case: a reply names ids and times that
    differ from address to address."""
    reply, clauses = BlockedAddress.reply, list[ColumnElement[bool]]([false()])
    for alternative in condition.alternatives:
        if isinstance(alternative, IsNull):
            clauses.append(reply.is_(None))
        elif isinstance(alternative, Equals) and alternative.value:
            clauses.append(reply.icontains(str(alternative.value), autoescape=True))
    return not_(func.coalesce(or_(*clauses), false())) if condition.op == "ne" else or_(*clauses)


@dataclass(frozen=True, slots=True)
class MatchingBlocked:
    """The blocked addresses of an account that match the query, up to the newest one: without those of complaints,
    which are never taken back together, and of forgotten people."""

    account_id: int
    query: Query
    newest: Place | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """What the blocked addresses that match meet."""
        entry = BlockedAddress
        replies = [condition for condition in self.query.conditions if condition.filter.name == "reply"]
        others = Query(conditions=tuple(condition for condition in self.query.conditions if condition not in replies))
        columns: dict[str, ColumnElement[Any]] = {
            "state": literal(BLOCKED),
            "reason": entry.reason.expression,
            "creation_time": entry.creation_time.expression,
        }
        is_listed = entry.account_id == self.account_id, entry.reason != COMPLAINT, ~entry.address.startswith(PREFIX)
        return [*is_listed, *compiled.where(others, columns), *map(quoting, replies)]

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        with planned_for_values(session):
            return session.execute(self._select(columns, after).order_by(*ORDER).limit(most)).all()

    def newest_ones(self, session: Session, columns: Sequence[Any], most: int) -> Sequence[Row[Any]]:
        """The newest ones, from the newest on."""
        with planned_for_values(session):
            statement = self._select(columns, None).order_by(*(column.desc() for column in ORDER)).limit(most)
            return session.execute(statement).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        with planned_for_values(session):
            # In their order, so that both databases read the account's own entries alone, by their index.
            some = self._select((), None).order_by(*ORDER).limit(most + 1).subquery()
            return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(self, columns: Sequence[Any], after: Place | None) -> Select[Any]:
        place = (column.label(f"place_{number}") for number, column in enumerate(ORDER))
        statement = select(*columns, *place).where(*self.conditions)
        if after is not None:
            statement = statement.where(tuple_(*ORDER) > _bound(after))
        return statement if self.newest is None else statement.where(tuple_(*ORDER) <= _bound(self.newest))


def newest_blocked(session: Session, account_id: int) -> Place | None:
    """The place of the address that the account has blocked last; None without any."""
    newest = select(*ORDER).where(BlockedAddress.account_id == account_id)
    row = session.execute(newest.order_by(*(column.desc() for column in ORDER)).limit(1)).first()
    return None if row is None else (row[0], row[1])


def unblock_matching(transaction: Transaction, matching: MatchingBlocked, ids: Collection[int]) -> int:
    """Unblocks those of these entries that still match, and resets their soft bounces, as for one address; records the
    events of their contacts. Returns how many. A fixed number of statements."""
    unblocked, changed = unblock_entries(transaction, in_json(BlockedAddress.id, ids), *matching.conditions)
    keys = all_forms(address.key for address in unblocked)
    counts = SoftBounces.account_id == matching.account_id, in_json(SoftBounces.address, keys)
    forgotten = delete(SoftBounces).where(*counts, SoftBounces.kind.in_({address.kind for address in unblocked}))
    transaction.execute(forgotten, execution_options={"synchronize_session": False})
    contacts = changed.get(matching.account_id, ())
    record_contact_events(transaction, matching.account_id, "updated", contacts, this_second())
    return len(unblocked)


def _bound(place: Place) -> Any:
    return tuple_(*(literal(value, column.type) for value, column in zip(place, ORDER, strict=True)))
