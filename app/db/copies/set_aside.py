"""Indexes and constraints of tables that are being loaded: dropped before the rows come, made again after them.

Over all rows at once an index is sorted instead of grown, and a foreign key is one join instead of a look-up for each
row, of which PostgreSQL also keeps a list in memory until the end of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, text

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
ONLY = re.compile(r" ON ONLY ")
"""How PostgreSQL describes the index of a table with partitions; without the word it gets those of the partitions."""
OF_SQLITE = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = :table"
SORTING = "SET LOCAL maintenance_work_mem = '256MB'"


class _SetAside(NamedTuple):
    """What drops it, and what makes it again."""

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
    found = _of_postgresql(connection, tables) if is_postgresql else _of_sqlite(connection, tables)
    for one in found:
        connection.exec_driver_sql(one.drop)
    yield
    if is_postgresql:
        connection.exec_driver_sql(SORTING)
    for one in reversed(found):
        connection.exec_driver_sql(one.make)


def _of_postgresql(connection: Connection, tables: Collection[str]) -> list[_SetAside]:
    """References first, then indexes, then keys: in this order they can be dropped."""
    named = {"tables": list(tables)}
    references, keys = list[_SetAside](), list[_SetAside]()
    for table, name, is_reference, definition in connection.execute(text(CONSTRAINTS), named):
        one = _SetAside(
            f"ALTER TABLE {table} DROP CONSTRAINT {name}", f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
        )
        (references if is_reference else keys).append(one)
    indexes = [
        _SetAside(f"DROP INDEX {name}", ONLY.sub(" ON ", definition, count=1))
        for name, definition in connection.execute(text(INDEXES), named)
    ]
    return [*references, *indexes, *keys]


def _of_sqlite(connection: Connection, tables: Collection[str]) -> list[_SetAside]:
    """The rest belongs to the table itself there."""
    return [
        _SetAside(f'DROP INDEX "{name}"', definition)
        for table in tables
        for name, definition in connection.execute(text(OF_SQLITE), {"table": table})
    ]
