"""A sent email, with what reports about it need."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func

from app.addresses import email_key
from app.db.database import Transaction
from app.db.models import Contact, List, Recipient, Send
from app.recipients.row import RecipientRow
from app.recipients.store import as_recipient, lock_queue_entry, lock_recipient, select_recipients


class Mail(NamedTuple):
    """A recipient of an email; its `list_id` is that of a list that still exists."""

    recipient: RecipientRow
    complaint_time: datetime | None
    bcc_address: str | None

    def is_about_copy(self, about: frozenset[str]) -> bool:
        """Whether addresses of a report name the blind copy and not the recipient: both have the same return path."""
        copy = email_key(self.bcc_address or "")
        return copy in about and email_key(self.recipient.email or "") not in about


def locked_mail(transaction: Transaction, recipient_id: int) -> Mail | None:
    """The email, locked with its queue entry until the end of the transaction; None for one that is gone. A recipient
    named by its contact has no address of its own until the outcome is written."""
    lock_recipient(transaction, recipient_id)
    lock_queue_entry(transaction, recipient_id)
    statement = (
        select_recipients(
            Recipient.complaint_time,
            Send.bcc_address,
            list_id=List.id,
            email=func.coalesce(Recipient.email, Contact.email),
        )
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.type == "email", Recipient.id == recipient_id)
    )
    row = transaction.connection().execute(statement).first()
    return Mail(as_recipient(row), row.complaint_time, row.bcc_address) if row else None
