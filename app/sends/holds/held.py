"""Finding the messages that are held."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from app.db.in_json import in_json
from app.db.models import QueueEntry, Recipient
from app.recipients.conditions import entry_in_state
from app.recipients.states import RecipientState

IS_HELD = entry_in_state(RecipientState.HELD)
WAS = (RecipientState.QUEUED.value, RecipientState.SENDING.value, RecipientState.UNCERTAIN.value)
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
        """On recipients joined with their entries."""
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


def held_messages(wanted: HeldMessages, *columns: Any) -> Select[Any]:
    """These columns of the recipients and entries that are meant."""
    joined = select(*columns).join_from(QueueEntry, Recipient, Recipient.id == QueueEntry.recipient_id)
    return joined.where(*wanted.conditions)


def count_held(session: Session, wanted: HeldMessages) -> list[HeldCount]:
    """The held messages that are meant, by account and former state."""
    key = QueueEntry.account_id, QueueEntry.held_state
    times = func.min(QueueEntry.due_time), func.max(QueueEntry.due_time)
    counted = held_messages(wanted, *key, func.count(), *times).group_by(*key).order_by(*key)
    return [HeldCount._make(row) for row in session.execute(counted)]
