"""Statements for many rows or values at once, the same for both databases.

Ids are drawn before the rows are written: the events of a change name them, and an INSERT that has to report ids in
order is several times slower than one that need not.

PostgreSQL gets the rows as one JSON text. Measured with a thousand contacts of fifteen columns, in milliseconds of the
process: a parameter per value and row 7.9, an array per column 15 to 22, COPY 3.5, JSON 1.3; the server takes the same
time for all of them. SQLite is in the process, and quickest with a parameter per value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast

import orjson
from sqlalchemy import LargeBinary, Table, insert, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.db.models import Base, table_of
from app.db.prepared import on_driver

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
DRAWN = text(
    "SELECT nextval(sequence) FROM CAST(pg_get_serial_sequence(:table, 'id') AS regclass) sequence, "
    "generate_series(1, :count)"
)
LAST_DRAWN = text("SELECT seq FROM sqlite_sequence WHERE name = :table")


def is_postgresql(session: Session) -> bool:
    """Which of the two dialects the session speaks."""
    return session.get_bind().dialect.name == "postgresql"


def draw_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """`count` new ids of the model's table, ascending, in one statement.

    On SQLite the session must be a writing one: its lock keeps others from drawing the same ids.
    """
    if count == 0:
        return []
    connection, table = session.connection(), model.__tablename__
    if is_postgresql(session):
        return sorted(connection.execute(DRAWN, {"table": table, "count": count}).scalars())
    last = connection.execute(LAST_DRAWN, {"table": table}).scalar() or 0
    return list(range(last + 1, last + 1 + count))


def insert_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Inserts rows that all have the same keys, in one statement and in their order; does nothing for none.

    `shared` are the columns that all rows have in common: they are written, sent and read once.
    """
    _insert(session, table_of(model), shared or {}, rows, or_nothing=False)


def insert_new_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """The same, leaving out rows that a unique index refuses because they are there already."""
    _insert(session, table_of(model), shared or {}, rows, or_nothing=True)


class Family(NamedTuple):
    """Rows that name another row, in the column `key`, which is not known before it is written."""

    model: type[Base]
    key: str
    rows: Sequence[Mapping[str, Any]]
    shared: Mapping[str, Any]


def insert_with_family(session: Session, model: type[Base], row: Mapping[str, Any], families: Sequence[Family]) -> int:
    """Inserts a row, with the rows that name it, and returns its id: one statement on PostgreSQL, whatever a family's
    size. Families whose rows hold bytes are not for this."""
    table, present = table_of(model), [family for family in families if family.rows]
    if not is_postgresql(session):
        row_id: int = session.connection().execute(insert(table).returning(table.c.id), row).scalar_one()
        for one in present:
            insert_rows(session, one.model, one.rows, {**one.shared, one.key: row_id})
        return row_id
    own = _Shape.of(table, row, [])
    shapes = [_Shape.of(table_of(one.model), one.shared, one.rows) for one in present]
    statement = _insert_of_family(own, tuple((one.key, shape) for one, shape in zip(present, shapes, strict=True)))
    data = [
        *own.data(row, []),
        *(part for one, shape in zip(present, shapes, strict=True) for part in shape.data(one.shared, one.rows)),
    ]
    created: int = on_driver(session.connection(), statement, data).fetchone()[0]
    return created


def _insert(
    session: Session, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, or_nothing: bool
) -> None:
    if not rows:
        return
    connection = session.connection()
    if is_postgresql(session) and _is_json(table):
        shape = _Shape.of(table, shared, rows)
        on_driver(connection, _insert_of_json(shape, or_nothing), shape.data(shared, rows))
        return
    given = [{**shared, **row} for row in rows]
    if or_nothing:
        dialect_insert = postgresql.insert if is_postgresql(session) else sqlite.insert
        connection.execute(dialect_insert(table).on_conflict_do_nothing(), given)
    else:
        connection.execute(insert(table), given)


@lru_cache
def _is_json(table: Table) -> bool:
    """Whether JSON is a good form for the rows: bytes would double in it."""
    return not any(isinstance(column.type, LargeBinary) for column in table.columns)


class _Shape(NamedTuple):
    """What rows look like, but for their values: the statement that writes them is made once for each shape."""

    table: Table
    shared: tuple[str, ...]
    own: tuple[str, ...]
    left_out: tuple[str, ...]
    """Columns that get what the model gives them."""

    @classmethod
    def of(cls, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> _Shape:
        own = tuple(rows[0]) if rows else ()
        given = {*shared, *own}
        return cls(table, tuple(shared), own, tuple(name for name in _with_default(table) if name not in given))

    def data(self, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """The parameters of the statement."""
        defaults = {name: _default(self.table, name) for name in self.left_out}
        objects = [{**shared, **defaults}] if shared or defaults else []
        return tuple(as_json(one) for one in (*objects, *([rows] if rows else [])))

    def columns(self) -> list[str]:
        return [_quoted(name) for name in (*self.shared, *self.left_out, *self.own)]

    def sources(self) -> list[str]:
        """Where the statement takes the columns from."""
        common = (*self.shared, *self.left_out)
        found = []
        if common:
            found.append(f"json_to_record(CAST(%s AS json)) AS common ({self._typed(common)})")
        if self.own:
            found.append(f"json_to_recordset(CAST(%s AS json)) AS own ({self._typed(self.own)})")
        return found

    def _typed(self, names: Sequence[str]) -> str:
        return ", ".join(f"{_quoted(name)} {self.table.columns[name].type.compile(POSTGRESQL)}" for name in names)


@lru_cache
def _insert_of_json(shape: _Shape, or_nothing: bool) -> str:
    columns, sources = ", ".join(shape.columns()), ", ".join(shape.sources())
    conflict = " ON CONFLICT DO NOTHING" if or_nothing else ""
    return f"INSERT INTO {shape.table.name} ({columns}) SELECT {columns} FROM {sources}{conflict}"  # noqa: S608 - names


@lru_cache
def _insert_of_family(own: _Shape, families: tuple[tuple[str, _Shape], ...]) -> str:
    parts = [f"parent AS ({_insert_of_json(own, False)} RETURNING id AS parent_id)"]
    for number, (key, shape) in enumerate(families):
        columns, sources = ", ".join(shape.columns()), ", ".join(shape.sources())
        into = f"{shape.table.name} ({_quoted(key)}, {columns})"
        parts.append(f"family{number} AS (INSERT INTO {into} SELECT parent_id, {columns} FROM parent, {sources})")  # noqa: S608 - names of models
    return f"WITH {', '.join(parts)} SELECT parent_id FROM parent"  # noqa: S608 - names of models


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
    """As PostgreSQL's functions for JSON read rows."""
    return orjson.dumps(value, default=_instant, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()


def _instant(value: object) -> str:
    """As PostgreSQL reads it. Refuses naive ones, as their column type does."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError(f"a {type(value).__name__} without a zone, or of another type, cannot be written this way")
    return value.isoformat()
