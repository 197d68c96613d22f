"""Writing many rows with one statement on both databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

import orjson
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    FromClause,
    LargeBinary,
    String,
    Table,
    Update,
    bindparam,
    column,
    func,
    insert,
    select,
    text,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from app.db.database import Transaction
from app.db.dialect import is_postgresql
from app.db.expressions import between, bounds
from app.db.models import Base, table_of
from app.db.prepared import (
    DIALECT_OF_SQLITE,
    CompiledStatement,
    DriverStatement,
    PreparedStatement,
    execute_on_driver,
    execute_on_sqlite,
)

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
    execute_on_driver(connection, _insert_of_shape(shape, ignore), shape.parameters(shared, rows))


def insert_json_statement(
    table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> DriverStatement:
    """The statement that inserts the rows in their order."""
    shape = _Shape.of(table, shared, rows)
    return _insert_of_shape(shape, False), shape.parameters(shared, rows)


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
        common = self.with_defaults(shared)
        return tuple(as_json(part) for part in (*([common] if common else []), *([rows] if rows else [])))

    def with_defaults(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The values that all rows have."""
        return {**shared, **{name: _default(self.table, name) for name in self.defaults}}

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
def _insert_of_shape(shape: _Shape, ignore: bool) -> str:
    columns, sources = ", ".join(shape.columns()), ", ".join(shape.sources())
    conflict = " ON CONFLICT DO NOTHING" if ignore else ""
    return f"INSERT INTO {shape.table.name} ({columns}) SELECT {columns} FROM {sources}{conflict}"  # noqa: S608 - names


@lru_cache
def _insert_with_children(parent: _Shape, families: tuple[_Family, ...]) -> str:
    parts = [f"parent AS ({_insert_of_shape(parent, False)} RETURNING id AS parent_id)"]
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


NEXT_IDS = text(
    "SELECT nextval(sequence) FROM CAST(pg_get_serial_sequence(:table, 'id') AS regclass) sequence, "
    "generate_series(1, :count)"
)
LAST_ID = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
TAKEN = (
    text(
        "INSERT INTO sqlite_sequence (name, seq) SELECT :table, 0 WHERE NOT EXISTS "
        "(SELECT 1 FROM sqlite_sequence WHERE name = :table)"
    ),
    text("UPDATE sqlite_sequence SET seq = :last WHERE name = :table"),
)


def draw_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """`count` new ids of the model's table, ascending, in one statement.

    On SQLite the session must be a writing one: its lock keeps other processes from drawing the same ids.
    """
    if count == 0:
        return []
    connection, table = session.connection(), model.__tablename__
    if is_postgresql(session):
        return sorted(connection.execute(NEXT_IDS, {"table": table, "count": count}).scalars())
    last = connection.execute(LAST_ID, {"table": table}).scalar() or 0
    return list(range(last + 1, last + 1 + count))


def take_ids(session: Session, model: type[Base], count: int) -> list[int]:
    """As `draw_ids`, for rows of another table: the model's own rows never get these ids."""
    ids = draw_ids(session, model, count)
    if ids and not is_postgresql(session):
        for statement in TAKEN:
            session.connection().execute(statement, {"table": model.__tablename__, "last": ids[-1]})
    return ids


def insert_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Inserts rows that all have the same keys, in one statement and in their order; does nothing for none.

    `shared` are columns with the same value in all rows: they are serialised, sent and parsed once.
    """
    _insert(session, table_of(model), shared or {}, rows, ignore=False)


def insert_new_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Like `insert_rows`, but skips rows that a unique index refuses."""
    _insert(session, table_of(model), shared or {}, rows, ignore=True)


def insert_rows_last(
    transaction: Transaction, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]
) -> list[DriverStatement]:
    """As `insert_rows`, for an action of `Transaction.at_commit`: returns the statement for the last round trip. SQLite
    has none to save: there it inserts at once. Not for tables with binary columns."""
    if is_postgresql(transaction):
        return [insert_json_statement(table_of(model), shared, rows)]
    insert_rows(transaction, model, rows, shared)
    return []


def insert_with_children(session: Session, model: type[Base], row: Mapping[str, Any], children: list[ChildRows]) -> int:
    """Inserts a row with the rows that refer to it, and returns its id: on PostgreSQL in one statement, whatever the
    number of children. Not for children with binary columns."""
    table, present = table_of(model), [child for child in children if child.rows]
    if is_postgresql(session):
        statement = insert_with_children_statement(table, row, present)
        (created,) = execute_on_driver(session.connection(), *statement).fetchone()
        return int(created)
    shape = _Shape.of(table, row, [])
    parent = _insert_on_sqlite(shape, ignore=False, returns_id=True)
    parameters = parent.parameters(shape.with_defaults(row))
    ((row_id,),), _ = execute_on_sqlite(session.connection(), parent.sql, parameters)
    for child in present:
        insert_rows(session, child.model, child.rows, {**child.shared, child.key: row_id})
        if child.companions:
            _insert_companions(session, child, child.companions, row_id)
    return int(row_id)


def insert_at_commit(
    transaction: Transaction, model: type[Base], row: Mapping[str, Any], children: list[ChildRows]
) -> None:
    """As `insert_with_children`, for rows that nothing else in the transaction reads or refers to: on PostgreSQL they
    are inserted right before the commit, in one round trip with what is counted. SQLite has none to save."""
    if not is_postgresql(transaction):
        insert_with_children(transaction, model, row, children)
        return
    present = [child for child in children if child.rows]
    transaction.last_rows.append(insert_with_children_statement(table_of(model), row, present))


def _insert_companions(session: Session, child: ChildRows, companions: CompanionRows, row_id: int) -> None:
    """Inserts the companions of the child rows, which were just inserted."""
    shape = _Shape.of(table_of(companions.model), companions.shared, [])
    values = {PARENT: row_id, "account_id": child.shared["account_id"], **shape.with_defaults(companions.shared)}
    _companions_on_sqlite(table_of(child.model), child.key, shape, companions.key).run(session, **values)


PARENT = "parent_id"


@lru_cache
def _companions_on_sqlite(child: Table, key: str, shape: _Shape, companion_key: str) -> PreparedStatement:
    names = (*shape.shared, *shape.defaults)
    values = [bindparam(name, type_=shape.table.c[name].type).label(None) for name in names]
    of_parent = child.c[key] == bindparam(PARENT), child.c.account_id == bindparam("account_id")
    each = select(child.c.id, *values).where(*of_parent)
    return PreparedStatement(insert(shape.table).from_select([companion_key, *names], each))


def _insert(
    session: Session, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, ignore: bool
) -> None:
    if not rows:
        return
    connection = session.connection()
    if not is_postgresql(session):
        shape = _Shape.of(table, shared, rows)
        _insert_on_sqlite(shape, ignore=ignore).run_each(connection, rows, shape.with_defaults(shared))
    elif fits_json(table):
        insert_json(connection, table, shared, rows, ignore=ignore)
    else:
        statement = postgresql.insert(table).on_conflict_do_nothing() if ignore else insert(table)
        connection.execute(statement, [{**shared, **row} for row in rows])


@lru_cache
def _insert_on_sqlite(shape: _Shape, *, ignore: bool, returns_id: bool = False) -> CompiledStatement:
    """With a parameter per value."""
    statement: Any = sqlite.insert(shape.table).inline()
    statement = statement.on_conflict_do_nothing() if ignore else statement
    statement = statement.returning(shape.table.c.id) if returns_id else statement
    return CompiledStatement.of(statement, DIALECT_OF_SQLITE, (*shape.shared, *shape.defaults, *shape.own))


ROWS, BOUNDS = "bulk_rows", ("least_id", "greatest_id")

RowValues = Mapping[str, ColumnElement[Any]]
"""Name of a value -> the expression for it in the statement."""


class BulkUpdate:
    """An UPDATE whose rows have these values; `build` makes the statement from their expressions, once per database.

    Of a table in ranges of ids, `id_column` is the column of the id, which is the value `row` (app/db/expressions.py).
    """

    def __init__(
        self, types: Mapping[str, TypeEngine[Any]], build: Callable[[RowValues], Update], *, id_column: Any = None
    ) -> None:
        self._types = types
        self._build = build
        self._id_column = id_column

    def run(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Updates rows that have all the values; does nothing for none."""
        if not rows:
            return
        if is_postgresql(session):
            session.connection().execute(self._on_postgresql, self._joined(rows))
        else:
            self._on_sqlite.run_each(session.connection(), rows)

    @cached_property
    def _on_postgresql(self) -> Update:
        return self._bounded(_json_columns(self._types))

    @cached_property
    def _on_sqlite(self) -> CompiledStatement:
        return CompiledStatement.of(self._build(_parameters(self._types)), DIALECT_OF_SQLITE)

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
    rows = func.json_to_recordset(sql_cast(bindparam(ROWS), JSON))
    columns = [column(name, type_) for name, type_ in types.items()]
    table = rows.table_valued(*columns, name="given").render_derived(with_types=True)
    return {name: table.c[name] for name in types}


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
        table = func.json_to_recordset(sql_cast(rows, JSON))
        columns = [column(name, type_) for name, type_ in types.items()]
        return table.table_valued(*columns, name="given").render_derived(with_types=True)
    each = func.json_each(rows).table_valued("value", name="each")
    return select(
        *(func.json_extract(each.c.value, f"$.{name}", type_=type_).label(name) for name, type_ in types.items())
    ).subquery("given")
