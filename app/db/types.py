"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

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

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Rejects naive values, which would be interpreted in the zone of the database server."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime cannot be stored as an instant")
        value = value.astimezone(UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """SQLite returns naive values, which are UTC."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


BigId = BigInteger().with_variant(Integer, "sqlite")
"""64-bit identity; SQLite's own rowid type needs the name INTEGER."""

Json: Any = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""JSON text in SQLite, JSONB in PostgreSQL."""
