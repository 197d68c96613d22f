"""Bounds of the ids that a statement is about, from which PostgreSQL knows the ranges of the history to look into.

Of an array of ids, or of a join, it does not: it would look every id up in every range, or find the range anew for each
row. Measured with 24 ranges, for the outcomes of 400 recipients: 46 ms of the server's processor time without bounds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import BindParameter, Boolean, ColumnElement, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _Between(FunctionElement[bool]):
    name = "between_ids"
    inherit_cache = True
    type = Boolean()
    _is_implicitly_boolean = True


def between_ids(column: Any, ids: Collection[int]) -> ColumnElement[bool]:
    """Whether the column, by which a table is in ranges, lies between the least and the greatest of the ids: to be
    added to a condition on the ids themselves. SQLite has no ranges, and gets nothing more to look at."""
    least, greatest = (bindparam(None, value, column.type, unique=True) for value in bounds(ids))
    return between(column, least, greatest)


def between(column: Any, least: BindParameter[int], greatest: BindParameter[int]) -> ColumnElement[bool]:
    """The same, of parameters."""
    return _Between(column, least, greatest)


def bounds(ids: Collection[int]) -> tuple[int, int]:
    """The least and the greatest of them; of none, what no id is."""
    return min(ids, default=0), max(ids, default=0)


@compiles(_Between, "sqlite")
def _on_sqlite(_element: _Between, _compiler: SQLCompiler, **_options: Any) -> str:
    return "true"


@compiles(_Between, "postgresql")
def _on_postgresql(element: _Between, compiler: SQLCompiler, **options: Any) -> str:
    column, least, greatest = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} BETWEEN {least} AND {greatest}"
