"""Conditions with the same meaning on both databases, each in the form for which its planner uses an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Select, any_, func, literal, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.db.dialect import is_postgresql


def in_subquery(session: Session, column: Any, ids: Select[Any]) -> ColumnElement[bool]:
    """The id is one of those that a correlated, limited select returns.

    SQLite runs such an IN once per outer row and looks the ids up. PostgreSQL would test every row of the table against
    it; with an array it looks the ids up.
    """
    if is_postgresql(session):
        condition: ColumnElement[bool] = column == any_(func.array(ids.scalar_subquery(), type_=ARRAY(BigInteger)))
    else:
        condition = column.in_(ids)
    return condition


def json_contains(session: Session, column: Any, part: Mapping[str, Any]) -> ColumnElement[bool] | None:
    """The JSON object has these members, for PostgreSQL's GIN index; None on SQLite, which has no such index."""
    if not is_postgresql(session):
        return None
    return type_coerce(column, JSONB).contains(literal(dict(part), JSONB))
