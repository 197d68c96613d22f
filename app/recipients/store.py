"""Selecting, locking and changing recipients and their queue entries, and appending to their timelines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, Send
from app.recipients.conditions import CURRENT_ATTEMPTS, CURRENT_STATE
from app.recipients.row import RecipientRow
from app.recipients.timeline import TimelineStep

_FROM_SEND = {"group_name", "request_id", "from_address", "automation_id", "step_id"}
_COLUMNS: dict[str, Any] = {
    **{name: getattr(Send if name in _FROM_SEND else Recipient, name) for name in RecipientRow._fields},
    "state": CURRENT_STATE,
    "attempts": CURRENT_ATTEMPTS,
}


def select_recipients(*further: Any, **instead: Any) -> Select[*tuple[Any, ...]]:
    """The columns of `RecipientRow`, some of them replaced by name, followed by `further` ones."""
    return select(*(_COLUMNS | instead).values(), *further).join(Send, Send.id == Recipient.send_id)


def as_recipient(row: Sequence[Any]) -> RecipientRow:
    """The recipient of a row of `select_recipients`, whatever further columns it has."""
    return RecipientRow._make(row[: len(RecipientRow._fields)])


def lock_recipient(transaction: Transaction, recipient_id: int) -> None:
    """Locks the row until the end of the transaction: two reports at the same moment are written one after the other,
    and none at the same time as the outcome.

    Rows may refer to it meanwhile: recovery appends to the timeline while it holds the queue entry.
    """
    statement = select(Recipient.id).where(Recipient.id == recipient_id)
    transaction.execute(statement.with_for_update(key_share=True))


def lock_queue_entry(transaction: Transaction, recipient_id: int) -> QueueEntry | None:
    """Locks the entry of a locked recipient, so that no worker claims it meanwhile; None if the recipient is
    settled."""
    statement = select(QueueEntry).where(QueueEntry.recipient_id == recipient_id)
    return transaction.scalars(statement.with_for_update()).first()


def update_recipients(transaction: Transaction, ids: Collection[int], **values: Any) -> None:
    """Sets the same values for all of them."""
    statement = update(Recipient).where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids)).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def update_queue_entries(transaction: Transaction, ids: Collection[int], **values: Any) -> None:
    """Sets the same values for the entries of all of them."""
    statement = update(QueueEntry).where(in_json(QueueEntry.recipient_id, ids)).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def delete_queue_entries(transaction: Transaction, ids: Collection[int]) -> None:
    """Deletes the entries of settled recipients; one statement, or none for no recipients."""
    if ids:
        statement = delete(QueueEntry).where(in_json(QueueEntry.recipient_id, ids))
        transaction.execute(statement, execution_options={"synchronize_session": False})


def has_step(session: Session, recipient_id: int, step: TimelineStep, detail: str | None = None) -> bool:
    """Whether the recipient's timeline has the step, with the detail if one is given."""
    steps = select(RecipientStep.id).where(RecipientStep.recipient_id == recipient_id, RecipientStep.step == step)
    if detail is not None:
        steps = steps.where(RecipientStep.detail == detail)
    return session.scalars(steps.limit(1)).first() is not None


def add_steps(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends steps to timelines, in their order; one statement, or none for no steps."""
    insert_rows(transaction, RecipientStep, rows)
