"""A sent email as what comes back about it needs it: its row, its event, its step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update

from app.addresses import email_key
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, RecipientStep, Send
from app.events.payloads import Payload, recipient_event
from app.recipients.timeline import TimelineStep
from app.tracking.unsubscribe import UnsubscribeRequest


@dataclass(frozen=True, slots=True)
class Mail:
    """A recipient of an email. `list_id` is that of a list that still exists."""

    id: int
    uuid: str
    account_id: int
    group_id: int
    group_name: str
    message_id: int | None
    list_id: int | None
    sender_name: str
    contact_id: int | None
    email: str | None
    state: str
    attempts: int
    complaint_time: datetime | None
    bcc_address: str | None
    request_id: str

    def event(self, name: str, moment: datetime, **extra: str | bool) -> Payload:
        """An event of this recipient with the common fields (specification: Recipient events)."""
        return recipient_event(
            name,
            recipient_id=self.id,
            uuid=self.uuid,
            group_id=self.group_id,
            group_name=self.group_name,
            message_id=self.message_id,
            message_type="email",
            list_id=self.list_id,
            contact_id=self.contact_id,
            email=self.email,
            mobile=None,
            moment=moment,
            **extra,
        )

    def wish(self) -> UnsubscribeRequest:
        """That of a recipient who wants no more."""
        return UnsubscribeRequest(
            self.id, self.account_id, self.group_id, self.list_id, "email", self.email or "", self.sender_name
        )

    def is_about_copy(self, about: frozenset[str]) -> bool:
        """Whether addresses of a report name the blind copy and not the recipient: both have one return path."""
        copy = email_key(self.bcc_address or "")
        return copy in about and email_key(self.email or "") not in about

    def add_step(self, transaction: Transaction, step: TimelineStep, detail: str, moment: datetime) -> None:
        """One more line of its timeline."""
        transaction.add(
            RecipientStep(
                account_id=self.account_id, recipient_id=self.id, time=moment, step=step, detail=detail or None
            )
        )

    def change(self, transaction: Transaction, **values: Any) -> None:
        """Sets columns of the recipient."""
        transaction.execute(
            update(Recipient).where(Recipient.id == self.id).values(**values),
            execution_options={"synchronize_session": False},
        )


def locked_mail(transaction: Transaction, recipient_id: int) -> Mail | None:
    """The email, which nobody else changes until the end of the transaction; None for one that is gone."""
    transaction.execute(select(Recipient.id).where(Recipient.id == recipient_id).with_for_update())
    row = transaction.connection().execute(_mails().where(Recipient.id == recipient_id)).first()
    return Mail(*row) if row else None


def _mails() -> Select[*tuple[Any, ...]]:
    """One row per `Mail`. Who was named by its contact has no address of its own until the outcome is written."""
    columns: dict[str, Any] = {
        "group_name": Send.group_name,
        "list_id": List.id,
        "sender_name": func.coalesce(List.name, Account.name),
        "email": func.coalesce(Recipient.email, Contact.email),
        "bcc_address": Send.bcc_address,
        "request_id": Send.request_id,
    }
    named: list[Any] = [columns.get(one.name, getattr(Recipient, one.name, None)) for one in fields(Mail)]
    return (
        select(*named)
        .join(Send, Send.id == Recipient.send_id)
        .join(Account, Account.id == Recipient.account_id)
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.type == "email")
    )
