"""Reading all tables as they are at one moment, while others write."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from app.db.bounded_connection import limit_waits
from app.db.copies.tables import (
    Kind,
    Stored,
    StoredTable,
    encode_rows,
    end_of_ranges,
    estimated_rows,
    last_ids,
    stored_tables,
)
from app.db.engine import temporary_engine
from app.db.field_indexes import names_of_indexes
from app.db.schema import REVISION_TABLE, schema_of

BLOCK_BYTES = 256 * 1024
"""Bytes that are passed on together, or a little more, or a single row if that is larger."""
ROWS_PER_READ = 1000
"""Rows that are read from SQLite together, at most."""
LIFT_TIMEOUTS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL extra_float_digits = 1",
)


Blocks = Iterator[tuple[bytes, int]]
"""Lines of a table, with the number of their rows."""


class CopyError(Exception):
    """A table cannot be read or written; the text is one line for the operator."""


@dataclass(frozen=True)
class Snapshot:
    """The tables of a database at one moment."""

    connection: Connection
    revision: str | None
    state: str
    tables: Mapping[str, StoredTable]

    @property
    def database(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.connection.dialect.name

    @property
    def last_ids(self) -> dict[str, int]:
        """Table -> the last id that was given."""
        return last_ids(self.connection, self.tables)

    @property
    def end_of_ranges(self) -> int:
        """The number behind the ranges of the history; 0 where it has none."""
        return end_of_ranges(self.connection)

    @property
    def field_indexes(self) -> list[str]:
        """The names of the indexes on list fields."""
        return names_of_indexes(self.connection) if "contacts" in self.tables else []

    @property
    def estimated_rows(self) -> int:
        """About how many rows there are in all."""
        return estimated_rows(self.connection, self.tables)

    def blocks(self, table: StoredTable) -> Blocks:
        """Lines of the table (app/db/copies/tables.py), in blocks with the number of their rows."""
        driver: Any = self.connection.connection.driver_connection
        blocks = _postgresql_blocks if self.database == "postgresql" else _sqlite_blocks
        try:
            yield from blocks(driver, table)
        except (psycopg.Error, sqlite3.Error) as error:
            raise CopyError(f"the table {table.name} cannot be read: {str(error).splitlines()[0]}") from error


@contextmanager
def snapshot(database_url: str) -> Iterator[Snapshot]:
    """The database as it is now, for as long as the block lasts. Nobody waits for it. Raises `SQLAlchemyError`."""
    with (
        temporary_engine(database_url) as engine,
        limit_waits(math.inf),
        engine.connect() as connection,
        connection.begin(),
    ):
        if connection.dialect.name == "postgresql":
            for setting in LIFT_TIMEOUTS:
                connection.exec_driver_sql(setting)
        schema = schema_of(connection)
        if schema.revision is not None:
            connection.execute(text(f"SELECT 1 FROM {REVISION_TABLE}"))  # noqa: S608 - SQLite's snapshot begins here at the latest
        tables = {} if schema.revision is None else stored_tables(connection)
        yield Snapshot(connection, schema.revision, schema.state, tables)


def _postgresql_blocks(driver: psycopg.Connection[Any], table: StoredTable) -> Blocks:
    statement = f'COPY (SELECT {table.column_list} FROM "{table.name}") TO STDOUT'  # noqa: S608 - names
    block, rows = bytearray(), 0
    with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for line in copy:
            block += line
            rows += 1
            if len(block) >= BLOCK_BYTES:
                yield bytes(block), rows
                block, rows = bytearray(), 0
    if rows:
        yield bytes(block), rows


def _sqlite_blocks(driver: Any, table: StoredTable) -> Blocks:
    """The database says how long each row is before its values are kept: some have a text, others an attachment."""
    long = [name for name, kind in zip(table.columns, table.kinds, strict=True) if kind in (Kind.TEXT, Kind.BYTES)]
    length = " + ".join(["0", *(f'coalesce(length("{name}"), 0)' for name in long)])
    rows: list[Sequence[Stored]] = []
    size = 0
    for row in driver.execute(f'SELECT {length}, {table.column_list} FROM "{table.name}"'):  # noqa: S608 - names
        rows.append(row[1:])
        size += row[0]
        if size >= BLOCK_BYTES or len(rows) >= ROWS_PER_READ:
            yield encode_rows(table.kinds, rows), len(rows)
            rows, size = [], 0
    if rows:
        yield encode_rows(table.kinds, rows), len(rows)
