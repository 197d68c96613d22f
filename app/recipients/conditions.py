"""Conditions on recipients, as the partial indexes of their table need them."""

from __future__ import annotations

from sqlalchemy import ColumnElement, literal_column

from app.recipients.states import RecipientState


def in_state(state: RecipientState) -> ColumnElement[bool]:
    """Written out, not bound: with a parameter in its place neither database would use the partial index."""
    return literal_column(f"recipients.state = '{state}'")
