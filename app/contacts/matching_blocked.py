"""All blocked addresses of an account that match a query, part by part, the oldest first, and unblocking them
(docs/console.md#unblocking-many)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, false, func, literal, not_, or_, select, tuple_
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, all_forms
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, unblock_entries
from app.contacts.events import record_contact_events
from app.db.address_digests import PREFIX
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.index_hints import planned_for_values
from app.db.models import BlockedAddress, SoftBounces
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, IsNull, Query
from app.query.fields import Filter, FilterType, Resource

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
    reply, found = BlockedAddress.reply, list[ColumnElement[bool]]([false()])
    for one in condition.alternatives:
        if isinstance(one, IsNull):
            found.append(reply.is_(None))
        elif isinstance(one, Equals) and one.value:
            found.append(reply.icontains(str(one.value), autoescape=True))
    return not_(func.coalesce(or_(*found), false())) if condition.op == "ne" else or_(*found)


@dataclass(frozen=True, slots=True)
class MatchingBlocked:
    """The blocked addresses of an account that match the query, up to the newest one: without those of complaints,
    which are never taken back together, and of forgotten people."""

    account_id: int
    query: Query
    newest: Place | None = None

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """What they meet."""
        entry = BlockedAddress
        replies = [one for one in self.query.conditions if one.filter.name == "reply"]
        others = Query(conditions=tuple(one for one in self.query.conditions if one not in replies))
        columns: dict[str, ColumnElement[Any]] = {
            "state": literal(BLOCKED),
            "reason": entry.reason.expression,
            "creation_time": entry.creation_time.expression,
        }
        own = entry.account_id == self.account_id, entry.reason != COMPLAINT, ~entry.address.startswith(PREFIX)
        return [*own, *compiled.where(others, columns), *map(quoting, replies)]

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        with planned_for_values(session):
            return session.execute(self._select(columns, after).order_by(*ORDER).limit(most)).all()

    def newest_ones(self, session: Session, columns: Sequence[Any], most: int) -> Sequence[Row[Any]]:
        """The newest ones, from the newest on."""
        with planned_for_values(session):
            found = self._select(columns, None).order_by(*(column.desc() for column in ORDER)).limit(most)
            return session.execute(found).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        with planned_for_values(session):
            # In their order, so that both databases read the account's own entries alone, by their index.
            some = self._select((), None).order_by(*ORDER).limit(most + 1).subquery()
            return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(self, columns: Sequence[Any], after: Place | None) -> Select[Any]:
        place = (column.label(f"place_{number}") for number, column in enumerate(ORDER))
        found = select(*columns, *place).where(*self.conditions)
        if after is not None:
            found = found.where(tuple_(*ORDER) > _bound(after))
        return found if self.newest is None else found.where(tuple_(*ORDER) <= _bound(self.newest))


def newest_blocked(session: Session, account_id: int) -> Place | None:
    """The place of the address that the account has blocked last; None without any."""
    newest = select(*ORDER).where(BlockedAddress.account_id == account_id)
    row = session.execute(newest.order_by(*(column.desc() for column in ORDER)).limit(1)).first()
    return None if row is None else (row[0], row[1])


def unblock_matching(transaction: Transaction, matching: MatchingBlocked, ids: Collection[int]) -> int:
    """Unblocks those of these entries that still match, and resets their soft bounces, as for one address; records the
    events of their contacts. Returns how many. A fixed number of statements."""
    unblocked, changed = unblock_entries(transaction, in_json(BlockedAddress.id, ids), *matching.conditions)
    keys = all_forms(one.key for one in unblocked)
    counts = SoftBounces.account_id == matching.account_id, in_json(SoftBounces.address, keys)
    forgotten = delete(SoftBounces).where(*counts, SoftBounces.kind.in_({one.kind for one in unblocked}))
    transaction.execute(forgotten, execution_options={"synchronize_session": False})
    contacts = changed.get(matching.account_id, ())
    record_contact_events(transaction, matching.account_id, "updated", contacts, this_second())
    return len(unblocked)


def _bound(place: Place) -> Any:
    return tuple_(*(literal(value, column.type) for value, column in zip(place, ORDER, strict=True)))
