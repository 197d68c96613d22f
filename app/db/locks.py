"""Advisory locks, for what is not a row: on a purpose and a number, until the end of the transaction."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.db.expressions import is_postgresql
from app.db.models import Base

EXCLUSIVE = text("SELECT pg_advisory_xact_lock(hashtextextended(:purpose, :number))")
SHARED = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:purpose, :number))")
BOTH_SHARED = text(
    "SELECT pg_advisory_xact_lock_shared(hashtextextended(:purpose, :number)),"
    " pg_advisory_xact_lock_shared(hashtextextended(:next_purpose, :next_number))"
)
IDENTIFIERS = "identifiers of a list"
"""The purpose of the lock on what distinguishes the contacts of a list: shared by those that give contacts addresses,
exclusive for a change of the list."""


def advisory_lock(session: Session, purpose: str, number: int, *, shared: bool = False) -> None:
    """Waits for the lock. Waiters are served in turn, so that many shared locks cannot starve an exclusive one.

    On SQLite the session must be a writing one, which excludes all other writers anyway.
    """
    if is_postgresql(session):
        session.execute(SHARED if shared else EXCLUSIVE, {"purpose": purpose, "number": number})


def both_shared_locks(session: Session, first: tuple[str, int], second: tuple[str, int]) -> None:
    """Waits for two shared locks, each on a purpose and a number, in one statement."""
    if is_postgresql(session):
        names = "purpose", "number", "next_purpose", "next_number"
        session.execute(BOTH_SHARED, dict(zip(names, (*first, *second), strict=True)))


def lock_out_writers(session: Session, model: type[Base]) -> None:
    """Waits for the transactions that have written the model's table, and lets no other one write it before the end of
    this one. On SQLite the session must be a writing one, which does that anyway."""
    if is_postgresql(session):
        session.execute(text(f"LOCK TABLE {model.__tablename__} IN SHARE ROW EXCLUSIVE MODE"))
