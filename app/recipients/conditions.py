"""Conditions on the states of recipients, and recipients as they are now."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, literal_column, select
from sqlalchemy.orm import Session

from app.db.models import Account, Contact, QueueEntry, Recipient, RecipientStep
from app.recipients.states import STATES_SHOWN_AS_QUEUED, RecipientState
from app.recipients.timeline import TimelineStep

IS_TEXT: ColumnElement[bool] = literal_column("recipients.type = 'sms'")


def entry_in_state(state: RecipientState) -> ColumnElement[bool]:
    """The condition on entries of the send queue that they are in that state."""
    return literal_column(f"send_queue.state = '{state}'")


def settled_as(state: RecipientState) -> ColumnElement[bool]:
    """The condition on recipients that this is their outcome. The first part is that of the index, from which SQLite
    would not conclude it."""
    return and_(literal_column("recipients.state <> 'queued'"), literal_column(f"recipients.state = '{state}'"))


IS_SENDING = entry_in_state(RecipientState.SENDING)
IS_READY = and_(entry_in_state(RecipientState.QUEUED), literal_column("send_queue.attempts >= 0"))
"""The entry is queued. The second part is always true, and lets the index on `ready_time` answer
(app/db/models/send_queue.py)."""


VALUES_SHOWN_AS_QUEUED = [state.value for state in STATES_SHOWN_AS_QUEUED]


def _entry_column_or(recipient_column: Any, entry_column: Any) -> ColumnElement[Any]:
    """The column of the recipient's queue entry, else that of the recipient. This is a lookup by the key of the small
    table: no join, so that it fits into any select of recipients."""
    entry = select(entry_column).where(QueueEntry.recipient_id == Recipient.id).correlate(Recipient).scalar_subquery()
    return func.coalesce(entry, recipient_column)


CURRENT_STATE = _entry_column_or(Recipient.state, QueueEntry.state)
SHOWN_STATE = _entry_column_or(
    Recipient.state,
    case(
        dict.fromkeys(VALUES_SHOWN_AS_QUEUED, RecipientState.QUEUED.value),
        value=QueueEntry.state,
        else_=QueueEntry.state,
    ),
)
"""The state of a recipient as clients see it."""
CURRENT_ATTEMPTS = _entry_column_or(Recipient.attempts, QueueEntry.attempts)


def _own_or_contact(recipient_column: Any, contact_column: Any) -> ColumnElement[Any]:
    contact = select(contact_column).where(Contact.id == Recipient.contact_id).scalar_subquery()
    return func.coalesce(recipient_column, contact)


CURRENT_ADDRESS = case(
    (Recipient.type == "email", _own_or_contact(Recipient.email, Contact.email)),
    else_=_own_or_contact(Recipient.mobile, Contact.mobile),
)
"""A recipient that is named by its contact has no address of its own until its outcome is written."""
IS_OF_TEST_ACCOUNT = select(Account.test_of.is_not(None)).where(Account.id == Recipient.account_id).scalar_subquery()


def current_entry(session: Session, recipient: Recipient) -> QueueEntry | None:
    """The recipient's entry in the send queue, whose state and attempts are those of the recipient until it is
    settled."""
    return session.scalars(select(QueueEntry).where(QueueEntry.recipient_id == recipient.id)).first()


def has_been_forgotten(recipient: Any = Recipient) -> ColumnElement[bool]:
    """The condition on recipients that they are forgotten. It is looked up for each recipient: PostgreSQL might answer
    an `EXISTS` by reading the timelines of all."""
    step_filter = RecipientStep.recipient_id == recipient.id, RecipientStep.step == TimelineStep.FORGOTTEN
    step = select(RecipientStep.step).where(*step_filter).limit(1).correlate(recipient)
    return step.scalar_subquery().is_not(None)
