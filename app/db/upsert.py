"""INSERT … ON CONFLICT for both databases: the caller executes the statement, with `returning` if it needs rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.elements import KeyedColumnElement

from app.db.dialect import is_postgresql
from app.db.models import Base

Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Refused = ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]
"""The columns of the row that could not be inserted (`excluded` in SQL)."""


def insert_or_ignore(session: Session, model: type[Base], rows: Rows, *, index: Sequence[str] | None = None) -> Insert:
    """Inserts one row or many, skipping those that a unique index refuses: that of these columns, or any."""
    return _insert(session, model, rows).on_conflict_do_nothing(index_elements=index)


def upsert(
    session: Session,
    model: type[Base],
    rows: Rows,
    *,
    index: Sequence[str],
    update: Callable[[Refused], Mapping[str, Any]],
) -> Insert:
    """Inserts one row or many, updating the existing row where the unique index of these columns refuses one."""
    statement = _insert(session, model, rows)
    return statement.on_conflict_do_update(index_elements=index, set_=update(statement.excluded))


def _insert(session: Session, model: type[Base], rows: Rows) -> postgresql.Insert | sqlite.Insert:
    insert = postgresql.insert if is_postgresql(session) else sqlite.insert
    return insert(model).values(rows)
