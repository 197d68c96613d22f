"""INSERT of many rows on PostgreSQL, sent as one JSON text.

Measured with a thousand contacts of fifteen columns, in milliseconds of the process: a parameter per value and row 7.9,
an array per column 15 to 22, COPY 3.5, JSON 1.3; the server takes the same time for all of them.

The statements are made from SQLAlchemy's tables and run on the driver. tests/unit/db/test_sqlalchemy_internals.py pins
what they rely on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast

import orjson
from sqlalchemy import Connection, LargeBinary, Table
from sqlalchemy.dialects import postgresql

from app.db.models import Base, table_of
from app.db.pipeline import DriverStatement
from app.db.prepared import execute_on_driver

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


class CompanionRows(NamedTuple):
    """One row for each child row, which it refers to in the column `key`; all have the columns `shared`."""

    model: type[Base]
    key: str
    shared: Mapping[str, Any]


class ChildRows(NamedTuple):
    """Rows that refer to a parent row in the column `key`, whose value is unknown until the parent is inserted, and
    `companions` of each."""

    model: type[Base]
    key: str
    rows: Sequence[Mapping[str, Any]]
    shared: Mapping[str, Any]
    companions: CompanionRows | None = None


@lru_cache
def fits_json(table: Table) -> bool:
    """Whether JSON is a good form for the rows: bytes would double in it."""
    return not any(isinstance(column.type, LargeBinary) for column in table.columns)


def insert_json(
    connection: Connection, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, ignore: bool
) -> None:
    """Inserts the rows in their order; with `ignore`, leaves out those that a unique index refuses."""
    shape = _Shape.of(table, shared, rows)
    execute_on_driver(connection, _insert(shape, ignore), shape.parameters(shared, rows))


def insert_json_statement(
    table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> DriverStatement:
    """The statement that inserts the rows in their order."""
    shape = _Shape.of(table, shared, rows)
    return _insert(shape, False), shape.parameters(shared, rows)


def insert_with_children_statement(
    table: Table, row: Mapping[str, Any], children: Sequence[ChildRows]
) -> DriverStatement:
    """Inserts a row with the rows that refer to it, and selects its id."""
    parent = _Shape.of(table, row, [])
    families = [_Family.of(child) for child in children]
    statement = _insert_with_children(parent, tuple(families))
    parameters = [*parent.parameters(row, [])]
    for child, family in zip(children, families, strict=True):
        parameters += family.child.parameters(child.shared, child.rows)
        if child.companions and family.companion:
            parameters += family.companion.parameters(child.companions.shared, [])
    return statement, parameters


class _Shape(NamedTuple):
    """Table and columns of rows without their values: the statement is built once per shape."""

    table: Table
    shared: tuple[str, ...]
    own: tuple[str, ...]
    defaults: tuple[str, ...]
    """Columns that no row names, with a default in the model."""

    @classmethod
    def of(cls, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> _Shape:
        own = tuple(rows[0]) if rows else ()
        named = {*shared, *own}
        return cls(table, tuple(shared), own, tuple(name for name in _with_default(table) if name not in named))

    def parameters(self, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        defaults = {name: _default(self.table, name) for name in self.defaults}
        objects = [{**shared, **defaults}] if shared or defaults else []
        return tuple(as_json(part) for part in (*objects, *([rows] if rows else [])))

    def columns(self) -> list[str]:
        return [_quoted(name) for name in (*self.shared, *self.defaults, *self.own)]

    def sources(self) -> list[str]:
        """The FROM items that the columns come from."""
        common = (*self.shared, *self.defaults)
        sources = []
        if common:
            sources.append(f"json_to_record(CAST(%s AS json)) AS common ({self._typed(common)})")
        if self.own:
            sources.append(f"json_to_recordset(CAST(%s AS json)) AS own ({self._typed(self.own)})")
        return sources

    def _typed(self, names: Sequence[str]) -> str:
        return ", ".join(f"{_quoted(name)} {self.table.columns[name].type.compile(POSTGRESQL)}" for name in names)


class _Family(NamedTuple):
    """The shapes of `ChildRows`."""

    key: str
    child: _Shape
    companion_key: str = ""
    companion: _Shape | None = None

    @classmethod
    def of(cls, rows: ChildRows) -> _Family:
        child = _Shape.of(table_of(rows.model), rows.shared, rows.rows)
        if rows.companions is None:
            return cls(rows.key, child)
        companion = _Shape.of(table_of(rows.companions.model), rows.companions.shared, [])
        return cls(rows.key, child, rows.companions.key, companion)


@lru_cache
def _insert(shape: _Shape, ignore: bool) -> str:
    columns, sources = ", ".join(shape.columns()), ", ".join(shape.sources())
    conflict = " ON CONFLICT DO NOTHING" if ignore else ""
    return f"INSERT INTO {shape.table.name} ({columns}) SELECT {columns} FROM {sources}{conflict}"  # noqa: S608 - names


@lru_cache
def _insert_with_children(parent: _Shape, families: tuple[_Family, ...]) -> str:
    parts = [f"parent AS ({_insert(parent, False)} RETURNING id AS parent_id)"]
    for number, family in enumerate(families):
        inserted = _insert_of_each(family.child, family.key, "parent_id", "parent")
        if family.companion is None:
            parts.append(f"child{number} AS ({inserted})")
            continue
        parts.append(f"child{number} AS ({inserted} RETURNING id AS child_id)")
        inserted = _insert_of_each(family.companion, family.companion_key, "child_id", f"child{number}")
        parts.append(f"companion{number} AS ({inserted})")
    return f"WITH {', '.join(parts)} SELECT parent_id FROM parent"  # noqa: S608 - names of models


def _insert_of_each(shape: _Shape, key: str, value: str, source: str) -> str:
    """Inserts the rows for each row of the source, whose `value` they have as their key."""
    columns, sources = ", ".join(shape.columns()), ", ".join([source, *shape.sources()])
    return f"INSERT INTO {shape.table.name} ({_quoted(key)}, {columns}) SELECT {value}, {columns} FROM {sources}"  # noqa: S608 - the same


def _quoted(name: str) -> str:
    quoted: str = POSTGRESQL.identifier_preparer.quote(name)
    return quoted


@lru_cache
def _with_default(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.default is not None)


def _default(table: Table, name: str) -> Any:
    default = cast(Any, table.columns[name].default)
    return default.arg(None) if default.is_callable else default.arg


def as_json(value: Any) -> str:
    """The rows in the form that PostgreSQL's JSON functions read."""
    return orjson.dumps(value, default=_instant, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()


def _instant(value: object) -> str:
    """Refuses naive datetimes, as their column type does."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError(f"a {type(value).__name__} without a zone, or of another type, cannot be written this way")
    return value.isoformat()
