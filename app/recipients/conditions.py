"""Conditions on recipients and their queue entries, written out and not bound: with a parameter in its place neither
database would use the partial index."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, literal_column

from app.recipients.states import RecipientState

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
