"""Finding the text messages of receipts and replies."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select
from sqlalchemy.orm import Session

from app.db.models import List, Recipient
from app.recipients.conditions import IS_TEXT
from app.recipients.row import RecipientRow, as_recipient, select_recipients


def select_texts(**instead: Any) -> Select[*tuple[Any, ...]]:
    """Recipients of text messages, some of the columns replaced by name; `list_id` is that of a list that still
    exists."""
    return select_recipients(list_id=List.id, **instead).outerjoin(List, List.id == Recipient.list_id).where(IS_TEXT)


def first_text(session: Session, statement: Select[*tuple[Any, ...]]) -> RecipientRow | None:
    """The first message that a select of `select_texts` finds."""
    row = session.connection().execute(statement.limit(1)).first()
    return as_recipient(row) if row else None
