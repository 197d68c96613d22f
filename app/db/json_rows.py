"""Rows that belong to another one, as one JSON text in a column of its select.

A join would repeat the columns of the one row for each of the others, and each repetition is converted and sent: for a
list with eight fields the text takes a third of the processor time.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ColumnElement, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _JsonRows(FunctionElement[str]):
    name = "json_rows"
    inherit_cache = True
    type = String()


def json_rows(*columns: Any) -> ColumnElement[str]:
    """An aggregate: an array with an array of these columns for each row, in no order. Of no rows null or `[]`."""
    return _JsonRows(*columns)


@compiles(_JsonRows, "postgresql")
def _on_postgresql(element: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(json_agg(json_build_array({compiler.process(element.clauses, **options)})) AS text)"


@compiles(_JsonRows, "sqlite")
def _on_sqlite(element: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    """There JSON is stored as text, which would become a string in the array."""
    parts = ((column.type, compiler.process(column, **options)) for column in element.clauses)
    values = ", ".join(f"json({sql})" if isinstance(type_, JSON) else sql for type_, sql in parts)
    return f"json_group_array(json_array({values}))"
