"""Selecting, locking and changing recipients, and appending to their timelines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, select, update

from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import Recipient, RecipientStep, Send
from app.recipients.row import RecipientRow

_FROM_SEND = {"group_name", "request_id", "from_address"}
_COLUMNS: dict[str, Any] = {
    name: getattr(Send if name in _FROM_SEND else Recipient, name) for name in RecipientRow._fields
}


def select_recipients(*further: Any, **instead: Any) -> Select[*tuple[Any, ...]]:
    """The columns of `RecipientRow`, some of them replaced by name, and `further` ones behind them."""
    return select(*(_COLUMNS | instead).values(), *further).join(Send, Send.id == Recipient.send_id)


def as_recipient(row: Sequence[Any]) -> RecipientRow:
    """The recipient of a row of `select_recipients`, whatever further columns it has."""
    return RecipientRow._make(row[: len(RecipientRow._fields)])


def lock_recipient(transaction: Transaction, recipient_id: int) -> None:
    """Locks the row until the end of the transaction: two reports at the same moment are written one after the
    other."""
    transaction.execute(select(Recipient.id).where(Recipient.id == recipient_id).with_for_update())


def update_recipients(transaction: Transaction, ids: Collection[int], **values: Any) -> None:
    """Sets the same values for all of them."""
    statement = update(Recipient).where(Recipient.id.in_(ids)).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def add_steps(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends steps to timelines, in their order; one statement, and none for no steps."""
    insert_rows(transaction, RecipientStep, rows)
