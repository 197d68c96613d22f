"""The tables of a copy of the database, and their rows as text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import JSON, Boolean, Connection, DateTime, LargeBinary, String, inspect, text
from sqlalchemy.types import TypeEngine

from app.db.history_ranges import PARTITION, SPAN
from app.db.schema import REVISION_TABLE, STATE_TABLE

Stored = str | int | float | bytes | None


class Kind(Enum):
    """What the text of a column stands for, where SQLite stores it in another form; of those that it stores in the
    same, which are `TEXT` and may be long."""

    PLAIN = "plain"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    BYTES = "bytes"


NULL = "\\N"
_BYTES = "\\\\x"
"""Before the digits of bytes."""
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SQLITE_TIME = re.compile(r"[\d-]{10} [\d:]{8}\.\d{6}\+00")
"""A time with all its digits: PostgreSQL leaves zeros at the end out, and may have another zone."""


def encode_rows(kinds: Sequence[Kind], rows: Sequence[Sequence[Stored]]) -> bytes:
    """The lines of rows that SQLite stores, of one at least."""
    columns = list(zip(kinds, zip(*rows, strict=True), strict=True))
    text = _joined(_written(kind, column) for kind, column in columns)
    backslashes = sum(_backslashes(kind, column) for kind, column in columns)
    unescaped = backslashes, len(rows) * (len(kinds) - 1), len(rows), 0
    if unescaped != tuple(map(text.count, ("\\", "\t", "\n", "\r"))):
        text = _joined(map(_escape, _written(kind, column), [kind] * len(rows), column) for kind, column in columns)
    return text.encode()


def decode_rows(kinds: Sequence[Kind], lines: Sequence[bytes]) -> Iterable[Sequence[Stored]]:
    """The rows for SQLite of lines, of one at least. Raises `ValueError` for lines that are none of such a table."""
    rows = [line.decode().removesuffix("\n").split("\t") for line in lines]
    for row in rows:
        if len(row) != len(kinds):
            raise ValueError(f"a row has {len(row)} columns instead of {len(kinds)}")
    return zip(*(_read(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)), strict=True)


def _joined(columns: Iterable[Iterable[str]]) -> str:
    return "\n".join(map("\t".join, zip(*columns, strict=True))) + "\n"


def _written(kind: Kind, column: Sequence[Any]) -> list[str]:
    """The texts of a column. Those of SQLite are not escaped yet."""
    match kind:
        case Kind.BOOLEAN:
            return [NULL if value is None else "t" if value else "f" for value in column]
        case Kind.TIME:
            return [NULL if value is None else f"{value}+00" for value in column]
        case Kind.BYTES:
            return [NULL if value is None else f"{_BYTES}{bytes(value).hex()}" for value in column]
        case _:
            return [NULL if value is None else value if value.__class__ is str else repr(value) for value in column]


def _backslashes(kind: Kind, column: Sequence[Any]) -> int:
    """How many backslashes the format itself adds to a column."""
    nulls = column.count(None)
    return nulls + (len(column) - nulls) * 2 if kind is Kind.BYTES else nulls


def _escape(text: str, kind: Kind, value: Any) -> str:
    is_free = kind in (Kind.PLAIN, Kind.TEXT) and value is not None
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], text) if is_free else text


def _read(kind: Kind, column: Sequence[str]) -> Iterable[Stored]:
    match kind:
        case Kind.BOOLEAN:
            return [None if text == NULL else int(text == "t") for text in column]
        case Kind.TIME:
            return [None if text == NULL else _stored_time(text) for text in column]
        case Kind.BYTES:
            return [None if text == NULL else bytes.fromhex(text.removeprefix(_BYTES)) for text in column]
        case _:
            return [None if text == NULL else _unescaped(text) if "\\" in text else text for text in column]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _MEANT.get(match[1], match[1]), text)


def _stored_time(text: str) -> str:
    if _SQLITE_TIME.fullmatch(text):
        return text[:-3]
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(" ", "microseconds")


KINDS: Mapping[type[TypeEngine[Any]], Kind] = {
    Boolean: Kind.BOOLEAN,
    DateTime: Kind.TIME,
    LargeBinary: Kind.BYTES,
    String: Kind.TEXT,
    JSON: Kind.TEXT,
}
READ_LAST_IDS = """
SELECT name, pg_sequence_last_value(CAST(pg_get_serial_sequence(name, 'id') AS regclass))
FROM unnest(CAST(:names AS text[])) AS name
"""
READ_RANGES = """
SELECT pg_get_expr(child.relpartbound, child.oid) FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = to_regclass('recipients')
"""
RANGE_END = re.compile(r"TO \('([0-9]+)'\)")
ESTIMATE_ROWS = """
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
        names = [
            name
            for name, _ in inspector.get_sorted_table_and_fkc_names()
            if name is not None and name not in (REVISION_TABLE, STATE_TABLE) and not PARTITION.fullmatch(name)
        ]
    columns = {name: attributes for (_, name), attributes in inspector.get_multi_columns(filter_names=names).items()}
    return {
        name: StoredTable(
            name,
            tuple(column["name"] for column in columns[name]),
            tuple(_kind(column["type"]) for column in columns[name]),
        )
        for name in names
    }


def _kind(type_: TypeEngine[Any]) -> Kind:
    return next((kind for type_class, kind in KINDS.items() if isinstance(type_, type_class)), Kind.PLAIN)


def last_ids(connection: Connection, tables: Mapping[str, StoredTable]) -> dict[str, int]:
    """Table -> the last id that was given, also if its row was deleted since."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("SELECT name, max(seq) FROM sqlite_sequence GROUP BY name"))
        return {name: last for name, last in rows if name in tables}
    names = [name for name, table in tables.items() if "id" in table.columns]
    rows = connection.execute(text(READ_LAST_IDS), {"names": names})
    return {name: int(last) for name, last in rows if last is not None}


def end_of_ranges(connection: Connection) -> int:
    """The number of the range of ids that comes after all that there are; 0 without ranges."""
    if connection.dialect.name == "sqlite":
        return 0
    bounds = connection.execute(text(READ_RANGES)).scalars()
    ends = [int(match[1]) for bound in bounds if (match := RANGE_END.search(bound))]
    return max(ends, default=0) // SPAN


def estimated_rows(connection: Connection, tables: Mapping[str, StoredTable]) -> int:
    """How many rows there are in all; on PostgreSQL about so many."""
    if connection.dialect.name == "sqlite":
        counts = (connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in tables)  # noqa: S608 - names
        return sum(map(int, counts))
    return int(connection.execute(text(ESTIMATE_ROWS)).scalar_one())
