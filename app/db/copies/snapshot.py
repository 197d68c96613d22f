"""Reading all tables as they are at one moment, while others write."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from app.db.copies.copy_text import row_encoder
from app.db.copies.tables import StoredTable, end_of_ranges, estimated_rows, last_ids, stored_tables
from app.db.engine import make_engine
from app.db.field_indexes import names_of_indexes
from app.db.schema import TABLE, schema_of
from app.db.wait_budget import limit_waits

BLOCK = 256 * 1024
"""Bytes that are passed on together, or a single row if that is larger."""
ROWS = 500
"""Rows that are read from SQLite together."""
UNBOUNDED = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL extra_float_digits = 1",
)


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

    def blocks(self, table: StoredTable) -> Iterator[tuple[bytes, int]]:
        """Lines of the table (app/db/copies/copy_text.py), in blocks with the number of their rows."""
        driver: Any = self.connection.connection.driver_connection
        lines = _of_postgresql(driver, table) if self.database == "postgresql" else _of_sqlite(driver, table)
        block, rows = bytearray(), 0
        try:
            for line in lines:
                block += line
                rows += 1
                if len(block) >= BLOCK:
                    yield bytes(block), rows
                    block, rows = bytearray(), 0
        except psycopg.Error as error:
            raise CopyError(f"the table {table.name} cannot be read: {str(error).splitlines()[0]}") from error
        if rows:
            yield bytes(block), rows


@contextmanager
def snapshot(database_url: str) -> Iterator[Snapshot]:
    """The database as it is now, for as long as the block lasts. Nobody waits for it. Raises `SQLAlchemyError`."""
    engine = make_engine(database_url)
    try:
        with limit_waits(math.inf), engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                for setting in UNBOUNDED:
                    connection.exec_driver_sql(setting)
            schema = schema_of(connection)
            if schema.revision is not None:
                connection.execute(text(f"SELECT 1 FROM {TABLE}"))  # noqa: S608 - SQLite's snapshot begins here at the latest
            tables = {} if schema.revision is None else stored_tables(connection)
            yield Snapshot(connection, schema.revision, schema.state, tables)
    finally:
        engine.dispose()


def _of_postgresql(driver: psycopg.Connection[Any], table: StoredTable) -> Iterator[bytes]:
    statement = f'COPY (SELECT {table.column_list} FROM "{table.name}") TO STDOUT'  # noqa: S608 - names
    with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        yield from map(bytes, copy)


def _of_sqlite(driver: Any, table: StoredTable) -> Iterator[bytes]:
    encode = row_encoder(table.kinds)
    rows = iter(driver.execute(f'SELECT {table.column_list} FROM "{table.name}"'))  # noqa: S608 - names
    while some := list(islice(rows, ROWS)):
        yield from map(encode, some)
