"""The two tables that events are alternately written to (docs/decisions/018-events-in-rotating-tables.md).

On PostgreSQL they are partitions, and one is truncated: that takes no time, and waits for no snapshot. SQLite has one
table, and deletes the events of the older turn in pieces.
"""

from __future__ import annotations

from sqlalchemy import delete, select, text
from sqlalchemy.exc import OperationalError

from app.db.commit_order import EVERYTHING
from app.db.database import Transaction
from app.db.dialect import is_postgresql
from app.db.models import Event, EventRotation

LOCK_TIMEOUT = "SET LOCAL lock_timeout = '500ms'"
"""Everybody else who needs the table waits behind this wait."""
NO_LOCK = "55P03"
PIECE = 1000
"""Events deleted in one transaction on SQLite: other writers wait for that."""


def lock_slot(transaction: Transaction, slot: int) -> bool:
    """Excludes everybody else from the events in the slot until the end of the transaction, which sees everything
    written to it. Returns False, with the transaction rolled back, if somebody uses the slot for longer than a
    moment."""
    if not is_postgresql(transaction):
        return True
    try:
        transaction.execute(text(LOCK_TIMEOUT))
        transaction.execute(text(f"LOCK TABLE events_{slot:d} IN ACCESS EXCLUSIVE MODE"))
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != NO_LOCK:
            raise
        transaction.rollback()
        return False
    return True


def end_of_piece(transaction: Transaction, rotation: EventRotation) -> int:
    """The id up to which `delete_piece` deletes the events of the older slot; `EVERYTHING` for the last piece."""
    if is_postgresql(transaction):
        return EVERYTHING
    oldest = select(Event.id).where(Event.id <= rotation.since_id).order_by(Event.id)
    return transaction.scalars(oldest.offset(PIECE - 1).limit(1)).first() or EVERYTHING


def delete_piece(transaction: Transaction, rotation: EventRotation, end: int) -> None:
    """Deletes the events of the older slot up to that id."""
    if is_postgresql(transaction):
        transaction.execute(text(f"TRUNCATE events_{rotation.other_slot:d}"))
    else:
        transaction.execute(delete(Event).where(Event.id <= min(end, rotation.since_id)))
