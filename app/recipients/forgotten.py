"""Recipients that are forgotten: nothing more is written about them (docs/privacy.md#forgetting)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from app.db.models import Recipient, RecipientStep
from app.recipients.timeline import TimelineStep


def has_been_forgotten(recipient: Any = Recipient) -> ColumnElement[bool]:
    """The condition on recipients that they are forgotten. It is looked up for each recipient: PostgreSQL might answer
    an `EXISTS` by reading the timelines of all."""
    of_recipient = RecipientStep.recipient_id == recipient.id, RecipientStep.step == TimelineStep.FORGOTTEN
    step = select(RecipientStep.step).where(*of_recipient).limit(1).correlate(recipient)
    return step.scalar_subquery().is_not(None)


def is_forgotten(session: Session, recipient_id: int) -> bool:
    """Whether the recipient is forgotten."""
    of_recipient = RecipientStep.recipient_id == recipient_id, RecipientStep.step == TimelineStep.FORGOTTEN
    return bool(session.scalar(select(exists().where(*of_recipient))))
