"""One UPDATE for many rows that each get values of their own, written once for both databases.

PostgreSQL gets the rows as one JSON text and joins with it: a statement per row, even pipelined, takes ten times as
long in this process. SQLite is in the process, and runs the statement once per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, ColumnElement, Update, bindparam, cast, column, func
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from app.db.bulk import as_json, is_postgresql

ROWS = "given_rows"

Given = Mapping[str, ColumnElement[Any]]
"""Names of values -> what stands for them in the statement."""


def given_values(types: Mapping[str, TypeEngine[Any]], *, postgresql: bool) -> Given:
    """What stands for the values of a row in a statement that `update_each` runs."""
    if not postgresql:
        return {name: bindparam(name, type_=type_) for name, type_ in types.items()}
    rows = func.json_to_recordset(cast(bindparam(ROWS), JSON))
    columns = [column(name, type_) for name, type_ in types.items()]
    table = rows.table_valued(*columns, name="given").render_derived(with_types=True)
    return {name: table.c[name] for name in types}


def update_each(session: Session, statement: Update, rows: Sequence[Mapping[str, Any]]) -> None:
    """Runs the statement for rows that have all the values it was made with; does nothing for none."""
    if not rows:
        return
    given = {ROWS: as_json(rows)} if is_postgresql(session) else rows
    session.connection().execute(statement, given)
