"""Loading copies of tables into an empty database, all in one transaction."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.db import migrate
from app.db.copies.snapshot import BLOCK_BYTES, CopyError
from app.db.copies.tables import StoredTable, decode_rows, end_of_ranges, stored_tables
from app.db.history_ranges import RANGE_KEYS, RANGES_AHEAD, SPAN
from app.db.schema import schema_of

ID_GAP = 100_000_000
"""Ids that are left out after a restore: some were given to rows that are lost, and links in messages contain them."""
Advance = Callable[[int], None]


class DatabaseNotEmpty(Exception):
    """The database has rows, or tables of another application; the text is one line for the operator."""


@dataclass(frozen=True)
class Loading:
    """An empty database that is being loaded, in a transaction."""

    connection: Connection

    @property
    def is_postgresql(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def prepare(self, revision: str) -> dict[str, StoredTable]:
        """Makes the tables of that revision, and returns them. Raises `DatabaseNotEmpty`, and `MigrationError` for a
        revision from before the baseline."""
        revision = migrate.in_baseline(revision)
        state = schema_of(self.connection)
        present = stored_tables(self.connection)
        if state.revision is None and present:
            raise DatabaseNotEmpty(f"it has tables of another application, such as {next(iter(present))}")
        for name in present:
            if name not in TABLES_WITH_INITIAL_ROWS and self._has_rows(name):
                raise DatabaseNotEmpty(f"its table {name} has rows")
        if state.revision is not None and state.revision != revision:
            migrate.downgrade_within(self.connection, "base")
        migrate.upgrade_within(self.connection, revision)
        tables = stored_tables(self.connection)
        for name in TABLES_WITH_INITIAL_ROWS & tables.keys():
            self.connection.execute(text(f'DELETE FROM "{name}"'))  # noqa: S608 - names
        return tables

    def load(self, table: StoredTable, file: BinaryIO, advance: Advance) -> None:
        """Writes the lines of the file into the table. Raises `CopyError`."""
        driver: Any = self.connection.connection.driver_connection
        try:
            if self.is_postgresql:
                _into_postgresql(driver, table, file, advance)
            else:
                _into_sqlite(driver, table, file, advance)
        except (psycopg.Error, ValueError, driver_errors(driver)) as error:
            raise CopyError(f"the table {table.name} cannot be written: {str(error).splitlines()[0]}") from error

    @staticmethod
    def ranges_for(last_recipient: int) -> int:
        """The number behind the range that has the recipient with this id."""
        return last_recipient // SPAN + 1

    def make_ranges(self, first: int, end: int) -> None:
        """Makes those of the ranges of the history with these numbers that are missing."""
        if not self.is_postgresql or not end_of_ranges(self.connection):
            return
        for number in range(max(first, end_of_ranges(self.connection)), end):
            bounds = f"FROM ({number * SPAN}) TO ({(number + 1) * SPAN})"
            for table in RANGE_KEYS:
                self.connection.execute(
                    text(f"CREATE TABLE {table}_r{number} PARTITION OF {table} FOR VALUES {bounds}")
                )

    def upgrade(self) -> None:
        """Migrates to the newest revision."""
        migrate.upgrade_within(self.connection, "head")

    def move_ids(self, last: Mapping[str, int], months: int) -> None:
        """Has new ids begin far behind the last ones, and new recipients in a range that no lost one can have been in:
        each month has one."""
        for name in last.keys() & stored_tables(self.connection).keys():
            self._set_last_id(name, last[name] + ID_GAP)
        end = end_of_ranges(self.connection)
        if end:
            current = last.get("recipients", 0) // SPAN
            begin = max(end, current + months + 1)
            self.make_ranges(begin, begin + 1 + RANGES_AHEAD)
            self._set_last_id("recipients", begin * SPAN)

    def may_be_committed(self, error: SQLAlchemyError) -> bool:
        """Whether a commit that has failed with this error may have happened: the server had not answered."""
        return self.is_postgresql and isinstance(error, DBAPIError) and error.connection_invalidated

    def _set_last_id(self, name: str, last: int) -> None:
        if self.is_postgresql:
            statement = "SELECT setval(CAST(pg_get_serial_sequence(:name, 'id') AS regclass), :last)"
            self.connection.execute(text(statement), {"name": name, "last": last})
            return
        keeps = text("SELECT count(*) FROM sqlite_master WHERE name = :name AND sql LIKE '%AUTOINCREMENT%'")
        if self.connection.execute(keeps, {"name": name}).scalar_one():
            self.connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": name})
            added = text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)")
            self.connection.execute(added, {"name": name, "last": last})

    def _has_rows(self, name: str) -> bool:
        return self.connection.execute(text(f'SELECT 1 FROM "{name}" LIMIT 1')).first() is not None  # noqa: S608 - names


TABLES_WITH_INITIAL_ROWS = {"event_rotation", "installation_key", "processes"}
"""Tables that have rows in a database that nobody has used, though processes may have started over it."""


@contextmanager
def loading(database_url: str) -> Iterator[Loading]:
    """The database in one transaction, which is committed at the end of the block, or not at all if it raises."""
    with migrate.exclusive(database_url) as connection:
        yield Loading(connection)


def driver_errors(driver: Any) -> type[Exception]:
    """The base class of the errors that the driver of the connection raises."""
    error_class: type[Exception] = psycopg.Error if isinstance(driver, psycopg.Connection) else driver.Error
    return error_class


def _into_postgresql(driver: psycopg.Connection[Any], table: StoredTable, file: BinaryIO, advance: Advance) -> None:
    statement = f'COPY "{table.name}" ({table.column_list}) FROM STDIN'
    with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        while block := file.read(BLOCK_BYTES):
            copy.write(block)
            advance(block.count(b"\n"))


def _into_sqlite(driver: Any, table: StoredTable, file: BinaryIO, advance: Advance) -> None:
    marks = ", ".join("?" * len(table.columns))
    statement = f'INSERT INTO "{table.name}" ({table.column_list}) VALUES ({marks})'  # noqa: S608 - names
    reader = io.BufferedReader(cast(io.RawIOBase, file), BLOCK_BYTES)
    while lines := reader.readlines(BLOCK_BYTES):
        driver.executemany(statement, decode_rows(table.kinds, lines))
        advance(len(lines))


# Indexes and constraints of tables that are being loaded: dropped before the rows come, made again after them.
#
# Over all rows at once an index is sorted instead of grown, and a foreign key is one join instead of a look-up for each
# row, of which PostgreSQL also keeps a list in memory until the end of the statement.

CONSTRAINTS = """
SELECT quote_ident(one.relname), quote_ident(conname), contype = 'f', pg_get_constraintdef(pg_constraint.oid)
FROM pg_constraint JOIN pg_class AS one ON one.oid = conrelid LEFT JOIN pg_class AS other ON other.oid = confrelid
WHERE one.relnamespace = CAST(current_schema() AS regnamespace) AND conparentid = 0 AND contype IN ('f', 'p', 'u')
    AND (one.relname = ANY(:tables) OR other.relname = ANY(:tables))
ORDER BY pg_constraint.oid
"""
"""Not those of partitions, which have their parent's. A key that others refer to goes after these references."""
INDEXES = """
SELECT quote_ident(own.relname), pg_get_indexdef(indexrelid)
FROM pg_index JOIN pg_class AS own ON own.oid = indexrelid JOIN pg_class AS one ON one.oid = indrelid
WHERE one.relnamespace = CAST(current_schema() AS regnamespace) AND one.relname = ANY(:tables)
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
ORDER BY indexrelid
"""
ON_ONLY = re.compile(r" ON ONLY ")
"""How PostgreSQL describes the index of a table with partitions; without the word it gets those of the partitions."""
SQLITE_INDEXES = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = :table"
RAISE_SORT_MEMORY = "SET LOCAL maintenance_work_mem = '256MB'"


class _IndexDefinition(NamedTuple):
    """The statement that drops an index or a constraint, and the one that makes it again."""

    drop: str
    make: str


@contextmanager
def indexes_set_aside(connection: Connection, tables: Collection[str]) -> Iterator[None]:
    """Inside the block the tables have no indexes and constraints that can be made again at its end; if it raises,
    nothing is made, since the transaction is rolled back."""
    if not tables:
        yield
        return
    is_postgresql = connection.dialect.name == "postgresql"
    definitions = _postgresql_indexes(connection, tables) if is_postgresql else _sqlite_indexes(connection, tables)
    for definition in definitions:
        connection.exec_driver_sql(definition.drop)
    yield
    if is_postgresql:
        connection.exec_driver_sql(RAISE_SORT_MEMORY)
    for definition in reversed(definitions):
        connection.exec_driver_sql(definition.make)


def _postgresql_indexes(connection: Connection, tables: Collection[str]) -> list[_IndexDefinition]:
    """References first, then indexes, then keys: in this order they can be dropped."""
    named = {"tables": list(tables)}
    references, keys = list[_IndexDefinition](), list[_IndexDefinition]()
    for table, name, is_reference, definition in connection.execute(text(CONSTRAINTS), named):
        constraint = _IndexDefinition(
            f"ALTER TABLE {table} DROP CONSTRAINT {name}", f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
        )
        (references if is_reference else keys).append(constraint)
    indexes = [
        _IndexDefinition(f"DROP INDEX {name}", ON_ONLY.sub(" ON ", definition, count=1))
        for name, definition in connection.execute(text(INDEXES), named)
    ]
    return [*references, *indexes, *keys]


def _sqlite_indexes(connection: Connection, tables: Collection[str]) -> list[_IndexDefinition]:
    """Only indexes: on SQLite, keys and references are part of the table itself."""
    return [
        _IndexDefinition(f'DROP INDEX "{name}"', definition)
        for table in tables
        for name, definition in connection.execute(text(SQLITE_INDEXES), {"table": table})
    ]
