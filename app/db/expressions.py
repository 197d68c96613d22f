"""SQL expressions in which the databases differ: ids in a list, rows of a JSON document, ranges of ids, searching
texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    BindParameter,
    Boolean,
    ColumnElement,
    Integer,
    String,
    bindparam,
    collate,
    false,
    func,
    or_,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def is_postgresql(session: Session) -> bool:
    """Whether the session uses PostgreSQL. Only `app/db` asks: everything outside gets statements that fit both."""
    return session.get_bind().dialect.name == "postgresql"


class _JsonRows(FunctionElement[str]):
    name = "json_rows"
    inherit_cache = True
    type = String()


def json_rows(*columns: Any) -> ColumnElement[str]:
    """An aggregate: an array with an array of these columns for each row, in no order. Of no rows null or `[]`."""
    return _JsonRows(*columns)


@compiles(_JsonRows, "postgresql")
def _json_rows_on_postgresql(element: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(json_agg(json_build_array({compiler.process(element.clauses, **options)})) AS text)"


@compiles(_JsonRows, "sqlite")
def _json_rows_on_sqlite(element: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    """There JSON is stored as text, which would become a string in the array."""
    parts = ((column.type, compiler.process(column, **options)) for column in element.clauses)
    values = ", ".join(f"json({sql})" if isinstance(type_, JSON) else sql for type_, sql in parts)
    return f"json_group_array(json_array({values}))"


class _InJson(FunctionElement[bool]):
    name = "in_json"
    inherit_cache = True
    type = Boolean()
    # Else SQLAlchemy compares it with 1 on SQLite, and no index answers that.
    _is_implicitly_boolean = True


def in_json(column: Any, values: Iterable[str] | Iterable[int] | BindParameter[Any]) -> ColumnElement[bool]:
    """Whether the column, of strings or of integers, contains one of the values.

    A prepared statement has a parameter in their place, whose value is a `json_array`.
    """
    if not isinstance(values, BindParameter):
        values = bindparam(None, json_array(values), String, unique=True)
    return _InJson(column, values)


def json_array(values: Iterable[str] | Iterable[int]) -> str:
    return orjson.dumps(list(values)).decode()


@compiles(_InJson, "sqlite")
def _in_json_on_sqlite(element: _InJson, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - rendered expressions, no values


@compiles(_InJson, "postgresql")
def _in_json_on_postgresql(element: _InJson, compiler: SQLCompiler, **options: Any) -> str:
    # An array, not a subquery to join with: so that the plan always uses the column's index.
    column, values = (compiler.process(part, **options) for part in element.clauses)
    element_sql = "CAST(one AS bigint)" if isinstance(next(iter(element.clauses)).type, Integer) else "one"
    elements = f"SELECT {element_sql} FROM json_array_elements_text(CAST({values} AS json)) one"  # noqa: S608 - the same
    return f"{column} = ANY (ARRAY({elements}))"


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
    """Whether the column lies between two parameters, as in `between_ids`."""
    return _Between(column, least, greatest)


def bounds(ids: Collection[int]) -> tuple[int, int]:
    """The least and the greatest of them; of none, what no id is."""
    return min(ids, default=0), max(ids, default=0)


@compiles(_Between, "sqlite")
def _between_on_sqlite(_element: _Between, _compiler: SQLCompiler, **_options: Any) -> str:
    return "true"


@compiles(_Between, "postgresql")
def _between_on_postgresql(element: _Between, compiler: SQLCompiler, **options: Any) -> str:
    column, least, greatest = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} BETWEEN {least} AND {greatest}"


MAX_PART = 10_000
"""Characters of the longest part that is looked for: SQLite refuses a pattern of more than 50,000 bytes."""


def has_part(text: Any, part: str) -> ColumnElement[bool]:
    """The condition that the text has the part, in any case. No text has one that is longer than `MAX_PART`, or has a
    NUL, which PostgreSQL refuses."""
    if len(part) > MAX_PART or "\0" in part:
        return false()
    condition: ColumnElement[bool] = text.icontains(part, autoescape=True)
    return condition


def contains_any(session: Session, text: Any, words: Collection[str], *, fold: bool = True) -> ColumnElement[bool]:
    """The condition that the text has one of the words, which are ASCII. With `fold` they are lower case, and the case
    of the text makes no difference: of other letters SQLite knows no case, and PostgreSQL takes three times as long
    with them."""
    if is_postgresql(session):
        text = collate(text, "C")
        position = func.strpos
    else:
        position = func.instr
    searched = func.lower(text) if fold else text
    return or_(false(), *(position(searched, word) > 0 for word in words))
