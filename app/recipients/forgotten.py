"""Recipients that are forgotten: nothing more is written about them (docs/privacy.md#forgetting)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from app.db.models import Recipient, RecipientStep
from app.recipients.timeline import TimelineStep


def has_been_forgotten(recipient: Any = Recipient) -> ColumnElement[bool]:
    """The condition on recipients that they are forgotten."""
    return exists().where(RecipientStep.recipient_id == recipient.id, RecipientStep.step == TimelineStep.FORGOTTEN)


def is_forgotten(session: Session, recipient_id: int) -> bool:
    """Whether the recipient is forgotten."""
    of_recipient = RecipientStep.recipient_id == recipient_id, RecipientStep.step == TimelineStep.FORGOTTEN
    return bool(session.scalar(select(exists().where(*of_recipient))))
