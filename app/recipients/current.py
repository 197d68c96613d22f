"""State and attempts of a recipient as reports show them: those of its queue entry until it is settled."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from app.db.models import QueueEntry, Recipient
from app.recipients.states import SHOWN_AS_QUEUED, RecipientState

AS_QUEUED = [state.value for state in SHOWN_AS_QUEUED]


def _of_entry_or(own: Any, of_entry: Any) -> ColumnElement[Any]:
    """A lookup by the key of the small table: no join, so that it fits into any select of recipients."""
    entry = select(of_entry).where(QueueEntry.recipient_id == Recipient.id).correlate(Recipient).scalar_subquery()
    return func.coalesce(entry, own)


CURRENT_STATE = _of_entry_or(Recipient.state, QueueEntry.state)
SHOWN_STATE = _of_entry_or(
    Recipient.state,
    case(dict.fromkeys(AS_QUEUED, RecipientState.QUEUED.value), value=QueueEntry.state, else_=QueueEntry.state),
)
"""As clients see it."""
CURRENT_ATTEMPTS = _of_entry_or(Recipient.attempts, QueueEntry.attempts)


def current_entry(session: Session, recipient: Recipient) -> QueueEntry | None:
    """The recipient's entry in the send queue, whose state and attempts are those of the recipient until it is
    settled."""
    return session.scalars(select(QueueEntry).where(QueueEntry.recipient_id == recipient.id)).first()
