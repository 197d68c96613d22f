"""Messages that are held after a restore: holding them, and finding them (docs/restore.md#what-a-restore-holds)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, insert, literal, select, update
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.expressions import in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, table_of
from app.query import compile as compiled
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_page
from app.recipients.collection import PLACE_COLUMNS, Place
from app.recipients.conditions import entry_in_state
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep

IS_HELD = entry_in_state(RecipientState.HELD)
FORMER_STATES = (
    *(RecipientState.SCHEDULED.value, RecipientState.QUEUED.value),
    *(RecipientState.SENDING.value, RecipientState.UNCERTAIN.value),
)
"""What a held message may have been in the backup."""


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Which of the held messages are meant: those that meet all that is given. Times are those at which a message was
    due; `was` is its state in the backup."""

    account_id: int | None = None
    group_id: int | None = None
    due_before: datetime | None = None
    due_after: datetime | None = None
    was: str | None = None
    uuids: Collection[str] = ()

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions on recipients joined with their entries."""
        entry, conditions = QueueEntry, [IS_HELD]
        if self.account_id is not None:
            conditions.append(entry.account_id == self.account_id)
        if self.group_id is not None:
            conditions.append(Recipient.group_id == self.group_id)
        if self.due_before is not None:
            conditions.append(entry.due_time < self.due_before)
        if self.due_after is not None:
            conditions.append(entry.due_time >= self.due_after)
        if self.was is not None:
            conditions.append(entry.held_state == self.was)
        if self.uuids:
            conditions.append(in_json(Recipient.uuid, [uuid.lower() for uuid in self.uuids]))
        return conditions


class HeldCount(NamedTuple):
    """The held messages of an account that were in the same state, and when the first and the last were due."""

    account_id: int
    was: str | None
    messages: int
    first_due: datetime
    last_due: datetime


def held_messages(selection: HeldMessages, *columns: Any) -> Select[Any]:
    """The named columns of the recipients and entries that are meant."""
    joined = select(*columns).join_from(QueueEntry, Recipient, Recipient.id == QueueEntry.recipient_id)
    return joined.where(*selection.conditions)


def count_held(session: Session, selection: HeldMessages) -> list[HeldCount]:
    """The held messages that are meant, by account and former state."""
    key = QueueEntry.account_id, QueueEntry.held_state
    times = func.min(QueueEntry.due_time), func.max(QueueEntry.due_time)
    counted = held_messages(selection, *key, func.count(), *times).group_by(*key).order_by(*key)
    return [HeldCount._make(row) for row in session.execute(counted)]


FILTERS = (
    Filter("uuid", FilterType.UUID),
    Filter("was", FilterType.ENUM, FORMER_STATES),
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
HELD_MESSAGES_SHAPE = Shape(
    resource=Resource(
        name="held message",
        collection="held_messages",
        filters={filter_.name: filter_ for filter_ in FILTERS},
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
    account_conditions = HeldMessages(account_id).conditions
    return read_page(session, HELD_MESSAGES_SHAPE, query, QueueEntry.recipient_id == Recipient.id, *account_conditions)


@dataclass(frozen=True, slots=True)
class MatchingHeldMessages:
    """All held messages that are meant and match a query, part by part, the oldest first, as `MatchingRecipients` has
    those of other states. Each part begins where the one before has ended, by the ids."""

    held: HeldMessages
    query: Query = Query()

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        statement = self._select(columns).order_by(QueueEntry.recipient_id).limit(most)
        return session.execute(
            statement if after is None else statement.where(QueueEntry.recipient_id > after[1])
        ).all()

    def newest_ones(self, session: Session, columns: Sequence[Any], most: int) -> Sequence[Row[Any]]:
        """The newest ones, from the newest on."""
        return session.execute(self._select(columns).order_by(QueueEntry.recipient_id.desc()).limit(most)).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        some = self._select(()).limit(most + 1).subquery()
        return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(self, columns: Sequence[Any]) -> Select[Any]:
        place = (column.label(f"place_{number}") for number, column in enumerate(PLACE_COLUMNS))
        statement = held_messages(self.held, *columns, *place)
        return statement.where(*compiled.where(self.query, HELD_MESSAGES_SHAPE.filter_columns))


def hold_messages(connection: Connection, taken: datetime, moment: datetime) -> int:
    """Holds every entry of the send queue, with a step in its recipient's timeline; returns how many. `taken` is the
    time of the backup. Entries that were held in it stay as they are; those that were paused were queued."""
    entries, steps = table_of(QueueEntry), table_of(RecipientStep)
    is_free = entries.c.state != RecipientState.HELD.value
    queued = {RecipientState.PAUSED.value: RecipientState.QUEUED.value}
    was = case(queued, value=entries.c.state, else_=entries.c.state)
    text = f"the service was restored from a backup of {timestamp(taken)}, in which this was "
    columns = {
        "account_id": entries.c.account_id,
        "recipient_id": entries.c.recipient_id,
        "time": literal(moment, steps.c.time.type),
        "step": literal(TimelineStep.HELD.value, steps.c.step.type),
        "detail": literal(text, steps.c.detail.type) + was,
    }
    noted = select(*columns.values()).where(is_free).order_by(entries.c.recipient_id)
    connection.execute(insert(steps).from_select(list(columns), noted))
    free = {"worker": None, "lease_time": None, "pause_id": None}
    values = {"held_state": was, "state": RecipientState.HELD.value, **free}
    return connection.execute(update(entries).where(is_free).values(values)).rowcount
