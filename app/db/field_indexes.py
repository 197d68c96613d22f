"""Indexes on list fields, for ranges of numbers and dates (docs/querying.md#what-an-index-answers).

An index belongs to a key, and serves the fields with that key in all lists. Every index costs a little for each contact
that is written, so their number is bounded. PostgreSQL builds one while others write.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import Connection, column, quoted_name, select, text
from sqlalchemy.types import TypeEngine

from app.db.bounded_connection import limit_waits
from app.db.engine import WRITE_OPTION, temporary_engine
from app.db.json_fields import json_date, json_number
from app.db.models import Contact, ListField, table_of
from app.db.planner_statistics import write_planner_statistics

FieldKind = Literal["number", "date"]
MAX_INDEXES = 16
VALUES = quoted_name("values", quote=True)
"""Without quotes PostgreSQL would take it for a list of values."""
PREFIX = "ix_contacts_field_"
MAX_NAME_LENGTH = 60
"""PostgreSQL cuts longer ones than 63 bytes."""

INDEX_NAMES = {
    "postgresql": "SELECT relname FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid "
    "WHERE indrelid = CAST('contacts' AS regclass) AND indisvalid",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'contacts'",
}


class FieldIndex(NamedTuple):
    """The key and type that an index is for."""

    key: str
    kind: FieldKind

    @property
    def name(self) -> str:
        """The name of the index in the database."""
        name = f"{PREFIX}{self.kind}_{self.key}"
        if len(name) <= MAX_NAME_LENGTH:
            return name
        return f"{name[: MAX_NAME_LENGTH - 13]}_{hashlib.sha256(self.key.encode()).hexdigest()[:12]}"


class TooManyIndexes(Exception):
    """The maximum number of field indexes is reached."""


def index_names(database_url: str) -> list[str]:
    """The names of all field indexes that the database has, in order."""
    with _connected(database_url) as connection:
        return names_of_indexes(connection)


def create_index(database_url: str, index: FieldIndex) -> bool:
    """Creates the index; returns False if it exists already. Raises `TooManyIndexes`."""
    with _connected(database_url) as connection:
        present = names_of_indexes(connection)
        if index.name in present:
            return False
        if len(present) >= MAX_INDEXES:
            raise TooManyIndexes(f"there are {len(present)} field indexes, and at most {MAX_INDEXES} are possible")
        # One that was not finished is invalid: it is in the way of its name.
        connection.execute(text(f"DROP INDEX {_concurrently(connection)}IF EXISTS {index.name}"))
        connection.execute(text(_definition(connection, index, _concurrently(connection))))
        _tell_planner(connection)
    return True


def restore_indexes(connection: Connection, names: Collection[str]) -> None:
    """Creates the indexes with these names, for keys that fields of lists have, in the transaction of the
    connection."""
    keys = connection.execute(select(ListField.key).distinct()).scalars().all() if names else []
    indexes = [FieldIndex(key, kind) for key in keys for kind in get_args(FieldKind)]
    for index in indexes:
        if index.name in names:
            connection.execute(text(_definition(connection, index, concurrently="")))
    if indexes:
        _tell_planner(connection)


def drop_index(database_url: str, name: str) -> bool:
    """Drops the index of that name; returns whether there was one."""
    with _connected(database_url) as connection:
        if name not in names_of_indexes(connection):
            return False
        connection.execute(text(f"DROP INDEX {_concurrently(connection)}{name}"))
    return True


def _tell_planner(connection: Connection) -> None:
    """Without statistics of the expression a planner knows nothing of the values."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("ANALYZE contacts"))
    else:
        write_planner_statistics(connection)


@contextmanager
def _connected(database_url: str) -> Iterator[Connection]:
    """A connection without a transaction, in which PostgreSQL builds no index concurrently, and without time limits."""
    with (
        temporary_engine(database_url, autocommit=True) as engine,
        limit_waits(math.inf),
        engine.connect().execution_options(**{WRITE_OPTION: True}) as connection,
    ):
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET statement_timeout = 0"))
        yield connection
        if connection.in_transaction():
            connection.commit()


def names_of_indexes(connection: Connection) -> list[str]:
    rows = connection.execute(text(INDEX_NAMES[connection.dialect.name])).scalars()
    return sorted(name for name in rows if name.startswith(PREFIX))


def _concurrently(connection: Connection) -> str:
    return "CONCURRENTLY " if connection.dialect.name == "postgresql" else ""


def _definition(connection: Connection, index: FieldIndex, concurrently: str) -> str:
    stored: TypeEngine[Any] = table_of(Contact).c["values"].type
    member = json_number if index.kind == "number" else json_date
    compiled = member(column(VALUES, stored), index.key).compile(dialect=connection.dialect)
    return f"CREATE INDEX {concurrently}{index.name} ON contacts (list_id, ({compiled})) WHERE ({compiled}) IS NOT NULL"
