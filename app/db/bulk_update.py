"""One UPDATE for many rows with different values, written once for both databases.

PostgreSQL gets the rows as one JSON text and joins with it: a statement per row, even pipelined, takes ten times as
long in this process. SQLite runs in the process, so it executes the statement once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, ColumnElement, Update, bindparam, cast, column, func
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from app.db.dialect import is_postgresql
from app.db.id_bounds import between, bounds
from app.db.json_insert import as_json

ROWS, BOUNDS = "bulk_rows", ("least_id", "greatest_id")

RowValues = Mapping[str, ColumnElement[Any]]
"""Name of a value -> the expression for it in the statement."""


class BulkUpdate:
    """An UPDATE whose rows have these values; `build` makes the statement from their expressions, once per database.

    Of a table in ranges of ids, `id_column` is the column of the id, which is the value `row` (app/db/id_bounds.py).
    """

    def __init__(
        self, types: Mapping[str, TypeEngine[Any]], build: Callable[[RowValues], Update], *, id_column: Any = None
    ) -> None:
        self._types = types
        self._build = build
        self._id_column = id_column
        self._statements: dict[bool, Update] = {}

    def run(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Updates rows that have all the values; does nothing for none."""
        if not rows:
            return
        on_postgresql = is_postgresql(session)
        if on_postgresql not in self._statements:
            values = _json_columns(self._types) if on_postgresql else _parameters(self._types)
            self._statements[on_postgresql] = self._bounded(values) if on_postgresql else self._build(values)
        parameters = self._joined(rows) if on_postgresql else rows
        session.connection().execute(self._statements[on_postgresql], parameters)

    def _bounded(self, values: RowValues) -> Update:
        if self._id_column is None:
            return self._build(values)
        least, greatest = (bindparam(name, type_=self._id_column.type) for name in BOUNDS)
        return self._build(values).where(between(self._id_column, least, greatest))

    def _joined(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        given = {ROWS: as_json(rows)}
        if self._id_column is None:
            return given
        return {**given, **dict(zip(BOUNDS, bounds([row["row"] for row in rows]), strict=True))}


def _parameters(types: Mapping[str, TypeEngine[Any]]) -> RowValues:
    return {name: bindparam(name, type_=type_) for name, type_ in types.items()}


def _json_columns(types: Mapping[str, TypeEngine[Any]]) -> RowValues:
    rows = func.json_to_recordset(cast(bindparam(ROWS), JSON))
    columns = [column(name, type_) for name, type_ in types.items()]
    table = rows.table_valued(*columns, name="given").render_derived(with_types=True)
    return {name: table.c[name] for name in types}
