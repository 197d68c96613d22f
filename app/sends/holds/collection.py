"""The collection of an account's held messages, the newest first (docs/console.md#held-messages)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, func, select
from sqlalchemy.orm import Session

from app.db.models import QueueEntry, Recipient
from app.query import compile as compiled
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_page
from app.recipients.matching import ORDER, Place
from app.sends.holds.held import WAS, HeldMessages, held_messages

FILTERS = (
    Filter("uuid", FilterType.UUID),
    Filter("was", FilterType.ENUM, WAS),
    Filter("group_id", FilterType.INTEGER),
    Filter("creation_time", FilterType.TIMESTAMP),
    Filter("due_time", FilterType.TIMESTAMP),
)
PROPERTIES = {
    **{name: Property(getattr(Recipient, name)) for name in ("uuid", "type", "email", "mobile", "group_id")},
    "was": Property(QueueEntry.held_state),
    "creation_time": Property(Recipient.creation_time, as_timestamp),
    "due_time": Property(QueueEntry.due_time, as_timestamp),
}
HELD = Shape(
    resource=Resource(
        name="held message",
        collection="held_messages",
        filters={one.name: one for one in FILTERS},
        fields=tuple(PROPERTIES),
    ),
    properties=PROPERTIES,
    keys=(QueueEntry.recipient_id,),
    links=lambda _: {},
    order=(QueueEntry.recipient_id,),
)
"""In the order of the index of what is held (app/db/models/send_queue.py)."""


def page_held(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's held messages."""
    of_account = HeldMessages(account_id).conditions
    return read_page(session, HELD, query, QueueEntry.recipient_id == Recipient.id, *of_account)


@dataclass(frozen=True, slots=True)
class MatchingHeld:
    """All held messages that are meant and match a query, part by part, the oldest first, as `Matching` has those of
    other states. Each part begins where the one before has ended, by the ids."""

    held: HeldMessages
    query: Query = Query()

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        found = self._select(columns).order_by(QueueEntry.recipient_id).limit(most)
        return session.execute(found if after is None else found.where(QueueEntry.recipient_id > after[1])).all()

    def newest_ones(self, session: Session, columns: Sequence[Any], most: int) -> Sequence[Row[Any]]:
        """The newest ones, from the newest on."""
        return session.execute(self._select(columns).order_by(QueueEntry.recipient_id.desc()).limit(most)).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        some = self._select(()).limit(most + 1).subquery()
        return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(self, columns: Sequence[Any]) -> Select[Any]:
        place = (column.label(f"place_{number}") for number, column in enumerate(ORDER))
        found = held_messages(self.held, *columns, *place)
        return found.where(*compiled.where(self.query, HELD.filter_columns))
