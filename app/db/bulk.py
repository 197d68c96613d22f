"""Statements for many rows at once, the same for both databases.

Ids are drawn before the rows are written: the events of a change name them, and an INSERT that has to report ids in
order is several times slower than one that need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.db.models import Base


def is_postgresql(session: Session) -> bool:
    """Which of the two dialects the session speaks."""
    return session.get_bind().dialect.name == "postgresql"


def draw_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """`count` new ids of the model's table, ascending, in one statement.

    On SQLite the session must be a writing one: its lock keeps others from drawing the same ids.
    """
    if count == 0:
        return []
    table = model.__tablename__
    if is_postgresql(session):
        drawn = text("SELECT nextval(pg_get_serial_sequence(:table, 'id')) FROM generate_series(1, :count)")
        return sorted(session.execute(drawn, {"table": table, "count": count}).scalars())
    last = session.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :table"), {"table": table}).scalar() or 0
    return list(range(last + 1, last + 1 + count))


def insert_rows(session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows that all have the same keys, in one statement; does nothing for none."""
    if rows:
        session.connection().execute(insert(model.__table__), list(rows))  # type: ignore[arg-type]


def insert_new_rows(session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """The same, leaving out rows that a unique index refuses because they are there already."""
    if rows:
        dialect_insert = postgresql.insert if is_postgresql(session) else sqlite.insert
        statement = dialect_insert(model.__table__).on_conflict_do_nothing()  # type: ignore[arg-type]
        session.connection().execute(statement, list(rows))
