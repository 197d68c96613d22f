"""All blocked addresses of an account that match a query, part by part, the oldest first, and unblocking them
(docs/console-contents.md#unblocking-many)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, func, literal, select, tuple_
from sqlalchemy.orm import Session

from app.addresses import all_forms
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, unblock_entries
from app.contacts.events import record_contact_events
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.index_hints import planned_for_values
from app.db.models import BlockedAddress, SoftBounces
from app.query import compile as compiled
from app.query.conditions import FilterCondition, Query
from app.query.times import beyond
from app.suppressions.filters import columns_of, is_listed, quoting
from app.suppressions.states import BLOCKED

Place = tuple[datetime, int]
"""Creation time and id of an entry: where it is in their order."""
ORDER: tuple[Any, ...] = (BlockedAddress.creation_time, BlockedAddress.id)


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
        return self._conditions(self.query.conditions)

    def _conditions(self, conditions: Sequence[FilterCondition]) -> list[ColumnElement[bool]]:
        replies = [condition for condition in conditions if condition.filter.name == "reply"]
        others = Query(conditions=tuple(condition for condition in conditions if condition not in replies))
        is_included = *is_listed(BLOCKED, self.account_id), BlockedAddress.reason != COMPLAINT
        return [*is_included, *compiled.where(others, columns_of(BLOCKED)), *map(quoting, replies)]

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
        conditions = self._conditions(self.query.conditions)
        if after is not None:
            further = beyond(self.query.conditions, "creation_time", after[0], ascending=True)
            conditions = [*self._conditions(further), tuple_(*ORDER) > _bound(after)]
        statement = select(*columns, *place).where(*conditions)
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
