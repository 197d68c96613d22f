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
    Executable,
    FromClause,
    Insert,
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
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from app.db.database import Transaction
from app.db.expressions import between, bounds, is_postgresql
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


class Conflict(NamedTuple):
    """What becomes of a row that a unique index refuses: it is left out, or changes the existing one."""

    unique: tuple[str, ...] = ()
    """The columns of that index; of any, if there are none."""
    updates: tuple[tuple[str, str], ...] = ()
    """Columns of the existing row with their new values in SQL, in which `excluded` is the refused row."""


SKIP_ON_CONFLICT = Conflict()


def _insert_with_children_statement(
    table: Table, row: Mapping[str, Any], children: Sequence[ChildRows]
) -> DriverStatement:
    """Inserts a row with the rows that refer to it, and selects its id."""
    parent = Shape.of(table, row, [])
    families = [_Family.of(child) for child in children]
    statement = _insert_with_children(parent, tuple(families))
    parameters = [*parent.parameters(row, [])]
    for child, family in zip(children, families, strict=True):
        parameters += family.child.parameters(child.shared, child.rows)
        if child.companions and family.companion:
            parameters += family.companion.parameters(child.companions.shared, [])
    return statement, parameters


class Shape(NamedTuple):
    """Table and columns of rows without their values: the statement is built once per shape."""

    table: Table
    shared: tuple[str, ...]
    row_columns: tuple[str, ...]
    defaults: tuple[str, ...]
    """Columns that no row names, with a default in the model."""

    @classmethod
    def of(cls, table: Table, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Shape:
        row_columns = tuple(rows[0]) if rows else ()
        named = {*shared, *row_columns}
        return cls(table, tuple(shared), row_columns, tuple(name for name in _with_default(table) if name not in named))

    def parameters(self, shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        common = self.with_defaults(shared)
        return tuple(as_json(part) for part in (*([common] if common else []), *([rows] if rows else [])))

    def with_defaults(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The values that all rows have."""
        return {**shared, **{name: _default(self.table, name) for name in self.defaults}}

    def columns(self) -> list[str]:
        return [_quoted(name) for name in (*self.shared, *self.defaults, *self.row_columns)]

    def sources(self) -> list[str]:
        """The FROM items that the columns come from."""
        common = (*self.shared, *self.defaults)
        sources = []
        if common:
            sources.append(f"json_to_record(CAST(%s AS json)) AS common ({self._typed(common)})")
        if self.row_columns:
            sources.append(f"json_to_recordset(CAST(%s AS json)) AS own ({self._typed(self.row_columns)})")
        return sources

    def _typed(self, names: Sequence[str]) -> str:
        return ", ".join(f"{_quoted(name)} {self.table.columns[name].type.compile(POSTGRESQL)}" for name in names)


class _Family(NamedTuple):
    """The shapes of `ChildRows`."""

    key: str
    child: Shape
    companion_key: str = ""
    companion: Shape | None = None

    @classmethod
    def of(cls, rows: ChildRows) -> _Family:
        child = Shape.of(table_of(rows.model), rows.shared, rows.rows)
        if rows.companions is None:
            return cls(rows.key, child)
        companion = Shape.of(table_of(rows.companions.model), rows.companions.shared, [])
        return cls(rows.key, child, rows.companions.key, companion)


@lru_cache
def insert_of(
    shape: Shape, conflict: Conflict | None = None, returning: tuple[str, ...] = (), beside: tuple[str, ...] = ()
) -> str:
    """The statement on PostgreSQL, whose parameters are those of the shape. Items of FROM `beside` are read first."""
    columns, sources = ", ".join(shape.columns()), ", ".join((*shape.sources(), *beside))
    parts = [f"INSERT INTO {shape.table.name} ({columns}) SELECT {columns} FROM {sources}"]  # noqa: S608 - names of models
    if conflict is not None:
        target = f" ({', '.join(conflict.unique)})" if conflict.unique else ""
        updates = ", ".join(f"{name} = {value}" for name, value in conflict.updates)
        parts.append(f"ON CONFLICT{target} DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}")
    if returning:
        parts.append(f"RETURNING {', '.join(returning)}")
    return " ".join(parts)


@lru_cache
def _insert_with_children(parent: Shape, families: tuple[_Family, ...]) -> str:
    parts = [f"parent AS ({insert_of(parent)} RETURNING id AS parent_id)"]
    for number, family in enumerate(families):
        inserted = _insert_of_each(family.child, family.key, "parent_id", "parent")
        if family.companion is None:
            parts.append(f"child{number} AS ({inserted})")
            continue
        parts.append(f"child{number} AS ({inserted} RETURNING id AS child_id)")
        inserted = _insert_of_each(family.companion, family.companion_key, "child_id", f"child{number}")
        parts.append(f"companion{number} AS ({inserted})")
    return f"WITH {', '.join(parts)} SELECT parent_id FROM parent"  # noqa: S608 - names of models


def _insert_of_each(shape: Shape, key: str, value: str, source: str) -> str:
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
TAKE_IDS = (
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
    """Draws ids as `draw_ids` does, for rows of another table: the model's own rows never get these ids."""
    ids = draw_ids(session, model, count)
    if ids and not is_postgresql(session):
        for statement in TAKE_IDS:
            session.connection().execute(statement, {"table": model.__tablename__, "last": ids[-1]})
    return ids


def insert_rows(
    session: Session, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
) -> None:
    """Inserts rows that all have the same keys, in one statement and in their order; does nothing for none.

    `shared` are columns with the same value in all rows: they are serialised, sent and parsed once.
    """
    _insert(session, table_of(model), shared or {}, rows)


def insert_new_rows(
    session: Session,
    model: type[Base],
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any] | None = None,
    *,
    conflict: Conflict = SKIP_ON_CONFLICT,
    returning: tuple[str, ...] = (),
) -> Sequence[Sequence[Any]]:
    """Like `insert_rows`, but with rows that a unique index refuses as `conflict` says. Returns these columns of the
    rows that were written, in any order."""
    return _insert(session, table_of(model), shared or {}, rows, conflict=conflict, returning=returning)


def insert_rows_last(
    transaction: Transaction, model: type[Base], rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]
) -> list[DriverStatement]:
    """Inserts rows as an action of `Transaction.at_commit`: returns the statement for the last round trip. SQLite
    has none to save: there it inserts at once. Not for tables with binary columns."""
    if is_postgresql(transaction):
        shape = Shape.of(table_of(model), shared, rows)
        return [(insert_of(shape), shape.parameters(shared, rows))]
    insert_rows(transaction, model, rows, shared)
    return []


def insert_with_children(session: Session, model: type[Base], row: Mapping[str, Any], children: list[ChildRows]) -> int:
    """Inserts a row with the rows that refer to it, and returns its id: on PostgreSQL in one statement, whatever the
    number of children. Not for children with binary columns."""
    table, present = table_of(model), [child for child in children if child.rows]
    if is_postgresql(session):
        statement = _insert_with_children_statement(table, row, present)
        (created,) = execute_on_driver(session.connection(), *statement).fetchone()
        return int(created)
    shape = Shape.of(table, row, [])
    parent = _insert_on_sqlite(shape, returning=("id",))
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
    """Inserts a row with children that nothing else in the transaction reads or refers to: on PostgreSQL they
    are inserted right before the commit, in one round trip with what is counted. SQLite has none to save."""
    if not is_postgresql(transaction):
        insert_with_children(transaction, model, row, children)
        return
    present = [child for child in children if child.rows]
    transaction.last_rows.append(_insert_with_children_statement(table_of(model), row, present))


def _insert_companions(session: Session, child: ChildRows, companions: CompanionRows, row_id: int) -> None:
    """Inserts the companions of the child rows, which were just inserted."""
    shape = Shape.of(table_of(companions.model), companions.shared, [])
    values = {
        PARENT_PARAMETER: row_id,
        "account_id": child.shared["account_id"],
        **shape.with_defaults(companions.shared),
    }
    _companions_on_sqlite(table_of(child.model), child.key, shape, companions.key).run(session, **values)


PARENT_PARAMETER = "parent_id"


@lru_cache
def _companions_on_sqlite(child: Table, key: str, shape: Shape, companion_key: str) -> PreparedStatement:
    names = (*shape.shared, *shape.defaults)
    values = [bindparam(name, type_=shape.table.c[name].type).label(None) for name in names]
    is_child = child.c[key] == bindparam(PARENT_PARAMETER), child.c.account_id == bindparam("account_id")
    each = select(child.c.id, *values).where(*is_child)
    return PreparedStatement(insert(shape.table).from_select([companion_key, *names], each))


def _insert(
    session: Session,
    table: Table,
    shared: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    conflict: Conflict | None = None,
    returning: tuple[str, ...] = (),
) -> Sequence[Sequence[Any]]:
    if not rows:
        return []
    connection = session.connection()
    on_postgresql = connection.dialect.name == POSTGRESQL.name
    if on_postgresql and fits_json(table):
        shape = Shape.of(table, shared, rows)
        statement = insert_of(shape, conflict, returning)
        cursor = execute_on_driver(connection, statement, shape.parameters(shared, rows))
        return cursor.fetchall() if returning else []
    if not on_postgresql and not returning:
        shape = Shape.of(table, shared, rows)
        _insert_on_sqlite(shape, conflict).run_each(connection, rows, shape.with_defaults(shared))
        return []
    parameters = [{**shared, **row} for row in rows] if shared else rows
    result = connection.execute(_insert_of_values(table, conflict, returning, on_postgresql), parameters)
    return result.fetchall() if returning else []


@lru_cache
def _insert_on_sqlite(
    shape: Shape, conflict: Conflict | None = None, returning: tuple[str, ...] = ()
) -> CompiledStatement:
    statement: Any = _insert_of_values(shape.table, conflict, returning, on_postgresql=False)
    return CompiledStatement.of(
        statement.inline(), DIALECT_OF_SQLITE, (*shape.shared, *shape.defaults, *shape.row_columns)
    )


@lru_cache
def _insert_of_values(
    table: Table, conflict: Conflict | None, returning: tuple[str, ...], on_postgresql: bool
) -> Executable:
    """An insert with a parameter for each value."""
    statement = (postgresql.insert if on_postgresql else sqlite.insert)(table)
    if conflict is not None:
        index, updates = conflict.unique or None, {name: text(value) for name, value in conflict.updates}
        if updates:
            statement = statement.on_conflict_do_update(index_elements=index, set_=updates)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=index)
    return statement.returning(*(table.c[name] for name in returning)) if returning else statement


Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Refused = ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]
"""The columns of the row that could not be inserted (`excluded` in SQL)."""


def upsert(
    session: Session,
    model: type[Base],
    rows: Rows,
    *,
    index: Sequence[str],
    update: Callable[[Refused], Mapping[str, Any]],
) -> Insert:
    """The statement that inserts one row or a few, updating the existing row where the unique index of these columns
    refuses one; with `returning`, if the caller needs rows."""
    statement = (postgresql.insert if is_postgresql(session) else sqlite.insert)(model).values(rows)
    return statement.on_conflict_do_update(index_elements=index, set_=update(statement.excluded))


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
        connection = session.connection()
        if connection.dialect.name == POSTGRESQL.name:
            connection.execute(self._on_postgresql, self._joined(rows))
        else:
            self._on_sqlite.run_each(connection, rows)

    @cached_property
    def _on_postgresql(self) -> Update:
        return self._bounded(_given_values(self._types))

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


def _given_values(types: Mapping[str, TypeEngine[Any]]) -> RowValues:
    table = given_rows(ROWS, types, on_postgresql=True)
    return {name: table.c[name] for name in types}


STORED_TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


def stored_time(moment: datetime) -> str:
    """A time in such a row: as SQLite stores it. PostgreSQL reads it in the zone of the session, which is always
    UTC."""
    return moment.astimezone(UTC).strftime(STORED_TIME_FORMAT)


def rows_given_to(session: Session, parameter: str, types: Mapping[str, TypeEngine[object]]) -> FromClause:
    """Rows given by one parameter, as `given_rows` makes them, for a statement of the session."""
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
