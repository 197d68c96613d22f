"""Locks on what is no row: a purpose and a number, until the end of the transaction."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.db.dialect import is_postgresql

EXCLUSIVE = text("SELECT pg_advisory_xact_lock(hashtextextended(:purpose, :number))")
SHARED = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:purpose, :number))")


def advisory_lock(session: Session, purpose: str, number: int, *, shared: bool = False) -> None:
    """Waits for the lock; who waits is served in turn, so that many shared holders cannot keep one exclusive out.

    On SQLite the session must be a writing one, and then nobody else writes anyway.
    """
    if is_postgresql(session):
        session.execute(SHARED if shared else EXCLUSIVE, {"purpose": purpose, "number": number})
