"""Conditions that mean the same on both databases, in the form that each serves by an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Select, any_, func, literal, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.db.dialect import is_postgresql


def in_subquery(session: Session, column: Any, ids: Select[Any]) -> ColumnElement[bool]:
    """The id is one of those that a correlated, limited select finds.

    SQLite runs an IN of that sort once per outer row and looks the ids up. PostgreSQL would test every row of the
    table against it; from an array it looks the ids up.
    """
    if is_postgresql(session):
        found: ColumnElement[bool] = column == any_(func.array(ids.scalar_subquery(), type_=ARRAY(BigInteger)))
    else:
        found = column.in_(ids)
    return found


def json_contains(session: Session, column: Any, part: Mapping[str, Any]) -> ColumnElement[bool] | None:
    """The JSON object has these members, as PostgreSQL's GIN index finds it; None on SQLite, which has none."""
    if not is_postgresql(session):
        return None
    return type_coerce(column, JSONB).contains(literal(dict(part), JSONB))
