"""Rows that a statement is given in one parameter, a JSON array of objects, as a table, on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import JSON, FromClause, String, bindparam, cast, column, func, select
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from app.db.dialect import is_postgresql

STORED = "%Y-%m-%d %H:%M:%S.%f"


def stored_time(moment: datetime) -> str:
    """A time in such a row: as SQLite stores it. PostgreSQL reads it in the zone of the session, which is always
    UTC."""
    return moment.astimezone(UTC).strftime(STORED)


def rows_given_to(session: Session, parameter: str, types: Mapping[str, TypeEngine[object]]) -> FromClause:
    """The same for a statement of the session."""
    return given_rows(parameter, types, on_postgresql=is_postgresql(session))


def given_rows(parameter: str, types: Mapping[str, TypeEngine[object]], *, on_postgresql: bool) -> FromClause:
    """The table `given` of the rows in the parameter of that name, with these columns."""
    rows = bindparam(parameter, type_=String)
    if on_postgresql:
        table = func.json_to_recordset(cast(rows, JSON))
        columns = [column(name, type_) for name, type_ in types.items()]
        return table.table_valued(*columns, name="given").render_derived(with_types=True)
    each = func.json_each(rows).table_valued("value", name="each")
    return select(
        *(func.json_extract(each.c.value, f"$.{name}", type_=type_).label(name) for name, type_ in types.items())
    ).subquery("given")
