"""Indexes that are built, and columns that are added, while others write the table, for migrations
(docs/upgrade.md#migrations).

A plain CREATE INDEX keeps writers out for as long as it takes, a minute for some million rows. These functions are for
migrations with `online = True`, which PostgreSQL runs outside of a transaction; each may be repeated after an
interruption. On SQLite, and in a new database, they work as those of Alembic.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.db import migrate

FIND_INVALID_INDEX = "SELECT true FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid"
FIND_RANGES = "SELECT CAST(CAST(inhrelid AS regclass) AS text) FROM pg_inherits WHERE inhparent = to_regclass(:name)"

Columns = Sequence[str | sa.TextClause]
"""Names, and expressions as `sa.text`."""


def add_column_online(table: str, column: sa.Column[Any]) -> None:
    """Adds a column that may be empty like `op.add_column`, with a short lock on the table."""
    connection = op.get_bind()
    if not _is_online(connection):
        with op.batch_alter_table(table, recreate="never") as batch_op:
            batch_op.add_column(column)
        return
    type_ = column.type.compile(connection.dialect)
    _lock_patiently(connection, f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column.name} {type_}")


def create_index_online(
    name: str, table: str, columns: Columns, *, where: str | None = None, unique: bool = False
) -> None:
    """Creates an index like `op.create_index`. On a table in ranges, the index of each range is built by itself."""
    connection = op.get_bind()
    if not _is_online(connection):
        rows = None if where is None else sa.text(where)
        op.create_index(name, table, list(columns), unique=unique, postgresql_where=rows, sqlite_where=rows)
        return
    kind = "UNIQUE INDEX" if unique else "INDEX"
    definition = f"({_listed(connection, columns)}){f' WHERE {where}' if where else ''}"
    ranges = sorted(connection.execute(text(FIND_RANGES), {"name": table}).scalars())
    if not ranges:
        _build(connection, kind, name, f"{table} {definition}")
        return
    _lock_patiently(connection, f"CREATE {kind} IF NOT EXISTS {name} ON ONLY {table} {definition}")
    for partition in ranges:
        _build(connection, kind, f"{name}_of_{partition}", f"{partition} {definition}")
        _lock_patiently(connection, f"ALTER INDEX {name} ATTACH PARTITION {name}_of_{partition}")


def drop_index_online(name: str, table: str) -> None:
    """Drops an index like `op.drop_index`. The index of a table in ranges is dropped with a short lock on the table."""
    connection = op.get_bind()
    if not _is_online(connection):
        op.drop_index(name, table_name=table)
        return
    if connection.execute(text(FIND_RANGES), {"name": table}).first() is not None:
        _lock_patiently(connection, f"DROP INDEX IF EXISTS {name}")
    else:
        connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {name}"))


def _is_online(connection: Connection) -> bool:
    isolation = connection.get_execution_options().get("isolation_level")
    return connection.dialect.name == "postgresql" and isolation == "AUTOCOMMIT"


def _listed(connection: Connection, columns: Columns) -> str:
    quote = connection.dialect.identifier_preparer.quote
    return ", ".join(quote(column) if isinstance(column, str) else column.text for column in columns)


def _lock_patiently(connection: Connection, statement: str) -> None:
    """Runs a statement that needs the table for itself, for a moment: it lets others pass that wait behind it."""
    deadline = time.monotonic() + migrate.PATIENCE_SECONDS
    connection.execute(text(f"SET lock_timeout = '{migrate.LOCK_TIMEOUT}'"))
    while not _got_its_locks(connection, statement):
        if time.monotonic() > deadline:
            raise migrate.TablesInUse(f"the tables of this statement stay in use: {statement}")
        time.sleep(random.uniform(*migrate.PAUSE))  # noqa: S311 - so that two do not meet again
    connection.execute(text("RESET lock_timeout"))


def _got_its_locks(connection: Connection, statement: str) -> bool:
    try:
        connection.execute(text(statement))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in migrate.LOCK_SQLSTATES:
            raise
        return False
    return True


def _build(connection: Connection, kind: str, name: str, on: str) -> None:
    """Builds it after removing what an interrupted attempt has left."""
    if connection.execute(text(FIND_INVALID_INDEX), {"name": name}).scalar():
        connection.execute(text(f"DROP INDEX CONCURRENTLY {name}"))
    connection.execute(text(f"CREATE {kind} CONCURRENTLY IF NOT EXISTS {name} ON {on}"))
