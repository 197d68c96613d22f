"""Conditions on recipients, written out and not bound: with a parameter in its place neither database would use the
partial index."""

from __future__ import annotations

from sqlalchemy import ColumnElement, literal_column

from app.recipients.states import RecipientState

IS_TEXT: ColumnElement[bool] = literal_column("recipients.type = 'sms'")


def in_state(state: RecipientState) -> ColumnElement[bool]:
    """Of recipients in that state."""
    return literal_column(f"recipients.state = '{state}'")


IS_SENDING = in_state(RecipientState.SENDING)
