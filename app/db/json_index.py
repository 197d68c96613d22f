"""Conditions on JSON columns that an index can serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, literal, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.db.bulk import is_postgresql


def contains(session: Session, column: Any, part: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    """A condition that PostgreSQL finds by the column's GIN index: the object has these members.

    It is meant to stand beside the exact condition. SQLite has no such index, so there is none to add there.
    """
    if not is_postgresql(session):
        return []
    return [type_coerce(column, JSONB).contains(literal(dict(part), JSONB))]
