"""A text message as what comes back to it needs it: its row, its event, its step, its group."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.models import List, Recipient, RecipientStep, Send
from app.events.payloads import Payload, recipient_event
from app.recipients.timeline import TimelineStep

# Written out, not bound: with a parameter in its place neither database would use the partial index.
IS_TEXT = text("recipients.type = 'sms'")


@dataclass(frozen=True, slots=True)
class Text:
    """A recipient of a text message. `list_id` is that of a list that still exists."""

    id: int
    uuid: str
    account_id: int
    group_id: int
    group_name: str
    message_id: int | None
    list_id: int | None
    list_name: str | None
    contact_id: int | None
    mobile: str | None
    state: str
    sender: str

    def event(self, name: str, moment: datetime, **extra: str | bool) -> Payload:
        """An event of this recipient with the common fields (specification: Recipient events)."""
        return recipient_event(
            name,
            recipient_id=self.id,
            uuid=self.uuid,
            group_id=self.group_id,
            group_name=self.group_name,
            message_id=self.message_id,
            message_type="sms",
            list_id=self.list_id,
            contact_id=self.contact_id,
            email=None,
            mobile=self.mobile,
            moment=moment,
            **extra,
        )

    def add_step(self, transaction: Transaction, step: TimelineStep, detail: str | None, moment: datetime) -> None:
        """One more line of its timeline."""
        transaction.add(
            RecipientStep(
                account_id=self.account_id, recipient_id=self.id, time=moment, step=step, detail=detail or None
            )
        )


def texts() -> Select[*tuple[Any, ...]]:
    """A select of text messages, one row per `Text`."""
    columns: dict[str, Any] = {
        "group_name": Send.group_name,
        "sender": Send.from_address,
        "list_id": List.id,
        "list_name": List.name,
    }
    named = [columns[one.name] if one.name in columns else getattr(Recipient, one.name) for one in fields(Text)]
    return (
        select(*named)
        .join(Send, Send.id == Recipient.send_id)
        .outerjoin(List, List.id == Recipient.list_id)
        .where(IS_TEXT)
    )


def first_text(session: Session, statement: Select[*tuple[Any, ...]]) -> Text | None:
    """The first message that a select of `texts()` finds."""
    row = session.connection().execute(statement.limit(1)).first()
    return Text(*tuple(row)) if row else None
