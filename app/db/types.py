"""Column types that mean the same on SQLite and PostgreSQL, and text from other systems in a form that both can
store."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB


def dump_json(value: Any) -> str:
    return orjson.dumps(value).decode()


class UtcDateTime(TypeDecorator[datetime]):
    """An instant: aware UTC datetimes in Python, `timestamptz` in PostgreSQL, ISO text in UTC in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """The instant of an aware time in UTC."""
        return _in_utc(value)

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        """The library's hook, with one step in place of its three for SQLite."""
        return _to_text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def result_processor(self, dialect: Dialect, _coltype: object) -> Callable[[Any], datetime | None] | None:
        """The library's hook for what is read. PostgreSQL returns aware values."""
        return _from_text if dialect.name == "sqlite" else None


def _in_utc(value: datetime | None) -> datetime | None:
    """Rejects naive values, which would be interpreted in the zone of the database server."""
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError("a naive datetime cannot be stored as an instant")
    return value.astimezone(UTC)


def _to_text(value: datetime | None) -> str | None:
    """A time as SQLAlchemy stores it in SQLite."""
    moment = _in_utc(value)
    return None if moment is None else moment.isoformat(" ", "microseconds")[:-6]


def _from_text(text: str | None) -> datetime | None:
    """Reads a time, also one with an offset, which a row from elsewhere may have."""
    return None if text is None else datetime.fromisoformat(text if "+" in text else f"{text}+00:00")


BigId = BigInteger().with_variant(Integer, "sqlite")
"""64-bit identity; SQLite's own rowid type needs the name INTEGER."""

Json: Any = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""JSON text in SQLite, JSONB in PostgreSQL."""


MAX_TEXT = 1000
LONGEST_ID = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def storable_text(value: object, longest: int = MAX_TEXT) -> str:
    """One line without control characters and surrogates, truncated. Bytes are decoded as UTF-8; other values are
    replaced by the name of their type. Raises nothing."""
    if type(value) is str and value.isascii() and value.isprintable():
        return value[:longest].strip()
    text = _text(value, longest)
    if text is None:
        return "" if value is None else f"({type(value).__name__})"
    return _CONTROL.sub(" ", text).strip()[:longest]


def storable_id(value: object) -> str | None:
    """An identifier of another system, from text or a number; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**LONGEST_ID else None
    text = _text(value, LONGEST_ID + 1)
    whole = text is not None and 0 < len(text) <= LONGEST_ID and not _CONTROL.search(text)
    return text if whole else None


def _text(value: object, longest: int) -> str | None:
    """At least the first `longest` characters. Does not call methods of subclasses."""
    if isinstance(value, str):
        return str.encode(str.__getitem__(value, slice(longest)), "utf-8", "replace").decode()
    if isinstance(value, bytes | bytearray):
        return bytes(memoryview(value)[: 4 * longest]).decode("utf-8", "replace")
    return None
