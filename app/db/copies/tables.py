"""The tables of a database as they are, whatever this version of the code expects: their columns, ids and ranges."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import JSON, Boolean, Connection, DateTime, LargeBinary, String, inspect, text
from sqlalchemy.types import TypeEngine

from app.db.copies.copy_text import Kind
from app.db.history_ranges import RANGE_NAME, SPAN
from app.db.schema import STATE_TABLE, TABLE

PARTITION = re.compile(rf"events_\d|{RANGE_NAME.pattern}")
"""Tables whose rows are read and written through their parent."""
KINDS: Mapping[type[TypeEngine[Any]], Kind] = {
    Boolean: Kind.BOOLEAN,
    DateTime: Kind.TIME,
    LargeBinary: Kind.BYTES,
    String: Kind.TEXT,
    JSON: Kind.TEXT,
}
RANGES = """
SELECT pg_get_expr(child.relpartbound, child.oid) FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = to_regclass('recipients')
"""
END = re.compile(r"TO \('([0-9]+)'\)")
ESTIMATE = """
SELECT coalesce(sum(greatest(reltuples, 0)), 0) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relkind = 'r'
"""


class StoredTable(NamedTuple):
    """A table with its columns in their order."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]

    @property
    def column_list(self) -> str:
        """The columns as a statement names them."""
        return ", ".join(f'"{name}"' for name in self.columns)


def stored_tables(connection: Connection) -> dict[str, StoredTable]:
    """All tables, each behind those that it refers to, without parts of others."""
    inspector = inspect(connection)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*expression-based index")
        names = [name for name, _ in inspector.get_sorted_table_and_fkc_names() if name is not None]
    found = {}
    for name in names:
        if name not in (TABLE, STATE_TABLE) and not PARTITION.fullmatch(name):
            columns = inspector.get_columns(name)
            kinds = tuple(_kind(column["type"]) for column in columns)
            found[name] = StoredTable(name, tuple(column["name"] for column in columns), kinds)
    return found


def _kind(type_: TypeEngine[Any]) -> Kind:
    return next((kind for known, kind in KINDS.items() if isinstance(type_, known)), Kind.PLAIN)


def last_ids(connection: Connection, tables: Mapping[str, StoredTable]) -> dict[str, int]:
    """Table -> the last id that was given, also if its row was deleted since."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("SELECT name, max(seq) FROM sqlite_sequence GROUP BY name"))
        return {name: last for name, last in rows if name in tables}
    found = {}
    for name, table in tables.items():
        if "id" in table.columns:
            of_table = text(f"SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence('{name}', 'id') AS regclass))")
            last = connection.execute(of_table).scalar()
            if last is not None:
                found[name] = int(last)
    return found


def end_of_ranges(connection: Connection) -> int:
    """The number of the range of ids that comes after all that there are; 0 without ranges."""
    if connection.dialect.name == "sqlite":
        return 0
    bounds = connection.execute(text(RANGES)).scalars()
    ends = [int(found[1]) for bound in bounds if (found := END.search(bound))]
    return max(ends, default=0) // SPAN


def estimated_rows(connection: Connection, tables: Mapping[str, StoredTable]) -> int:
    """How many rows there are in all; on PostgreSQL about so many."""
    if connection.dialect.name == "sqlite":
        counts = (connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in tables)  # noqa: S608 - names
        return sum(map(int, counts))
    return int(connection.execute(text(ESTIMATE)).scalar_one())
