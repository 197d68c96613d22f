"""Members of a JSON column as numbers and as dates, in exactly the form of the indexes on them.

A planner uses an index on an expression only for the same expression, including the key as a constant: hence a literal,
and hence only keys that need no quoting (docs/contacts.md#list-fields).
"""

from __future__ import annotations

import re
import sqlite3
from hashlib import blake2b
from types import TracebackType
from typing import Any

from sqlalchemy import ColumnElement, Float, String, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from app.db.types import Json

KEY = re.compile(r"[a-z0-9_]+")
DATE_LENGTH = len("2026-01-31T10:00:00")


class _JsonNumber(FunctionElement[float]):
    name = "json_number"
    inherit_cache = True
    type = Float()


class _JsonDate(FunctionElement[str]):
    name = "json_date"
    inherit_cache = True
    type = String()


def json_number(column: Any, key: str) -> ColumnElement[Any]:
    """The member as a 64-bit float; null unless it is a number."""
    return _JsonNumber(column, *_names(key))


def json_date(column: Any, key: str) -> ColumnElement[Any]:
    """The member as text, cut to the length of a date and time: an index entry cannot hold any text."""
    return _JsonDate(column, *_names(key))


class _WithoutMember(FunctionElement[Any]):
    name = "without_member"
    inherit_cache = True
    type = Json


def without_member(column: Any, key: str) -> ColumnElement[Any]:
    """The object without the member."""
    return _WithoutMember(column, *_names(key))


def _names(key: str) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The key as PostgreSQL and as SQLite name it; parts of the element, so that its cache key contains them."""
    if not KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not the key of a list field")
    return literal_column(f"'{key}'"), literal_column(f"'$.\"{key}\"'")


def _parts(element: FunctionElement[Any], compiler: SQLCompiler, **options: Any) -> tuple[str, str, str]:
    column, key, path = (compiler.process(part, **options) for part in element.clauses)
    return column, key, path


@compiles(_JsonNumber, "postgresql")
def _number_on_postgresql(element: _JsonNumber, compiler: SQLCompiler, **options: Any) -> str:
    # Another list may have a text under the same key, which no cast would take.
    column, key, _ = _parts(element, compiler, **options)
    return f"CASE WHEN jsonb_typeof({column} -> {key}) = 'number' THEN CAST({column} -> {key} AS double precision) END"


@compiles(_JsonNumber, "sqlite")
def _number_on_sqlite(element: _JsonNumber, compiler: SQLCompiler, **options: Any) -> str:
    column, _, path = _parts(element, compiler, **options)
    return f"CAST(json_extract({column}, {path}) AS FLOAT)"


@compiles(_WithoutMember, "postgresql")
def _without_member_on_postgresql(element: _WithoutMember, compiler: SQLCompiler, **options: Any) -> str:
    column, key, _ = _parts(element, compiler, **options)
    return f"{column} - {key}"


@compiles(_WithoutMember, "sqlite")
def _without_member_on_sqlite(element: _WithoutMember, compiler: SQLCompiler, **options: Any) -> str:
    column, _, path = _parts(element, compiler, **options)
    return f"json_remove({column}, {path})"


@compiles(_JsonDate, "postgresql")
def _date_on_postgresql(element: _JsonDate, compiler: SQLCompiler, **options: Any) -> str:
    column, key, _ = _parts(element, compiler, **options)
    return f'"left"({column} ->> {key}, {DATE_LENGTH})'


@compiles(_JsonDate, "sqlite")
def _date_on_sqlite(element: _JsonDate, compiler: SQLCompiler, **options: Any) -> str:
    column, _, path = _parts(element, compiler, **options)
    return f"substr(json_extract({column}, {path}), 1, {DATE_LENGTH})"


# How often each of very many keys has occurred, in memory that does not grow with them: they are in a temporary file,
# which SQLite deletes at the end, as hashes of equal length.

SET_UP = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA cache_size=-8192",
    "CREATE TABLE keys (key BLOB PRIMARY KEY, place INTEGER, times INTEGER) WITHOUT ROWID",
    "BEGIN",
)
ADD_KEY = "INSERT INTO keys VALUES (?, ?, 0) ON CONFLICT (key) DO UPDATE SET times = times + 1 RETURNING times, place"
KEY_BYTES = 16


class KeyCounts:
    """Counts for one pass over keys; to be closed."""

    def __init__(self) -> None:
        # A database without a name is a file that nothing else can open.
        self._connection = sqlite3.connect("", isolation_level=None)
        for statement in SET_UP:
            self._connection.execute(statement)

    def add(self, key: str, place: int) -> tuple[int, int]:
        """Counts the key. Returns how often it occurred before, and the place of its first time."""
        digest = blake2b(key.encode(), digest_size=KEY_BYTES).digest()
        times, first = self._connection.execute(ADD_KEY, (digest, place)).fetchone()
        return int(times), int(first)

    def __enter__(self) -> KeyCounts:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._connection.close()
