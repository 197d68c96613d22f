"""The hashes of sealed entries (docs/audit.md#seals). Pure.

All are keyed: whoever can write to the database, and does not know SECRET_KEY, cannot make one that fits, nor guess
from what is left of a purged entry what it said.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson


def entry_digest(key: bytes, entry: Mapping[str, Any]) -> str:
    """The keyed hash of an entry: of all its columns that have a value, so that a column which is added later changes
    no hash. Raises `TypeError` for values that no entry has."""
    return _keyed(key, "entry", {name: value for name, value in entry.items() if value is not None})


def seal_hash(key: bytes, seal: Mapping[str, Any], previous: str) -> str:
    """The hash of a seal whose predecessor has the hash `previous`, which is empty for the first one."""
    return _keyed(key, "seal", [seal["number"], seal["entry_id"], seal["time"], seal["digest"], previous])


def purged_mark(key: bytes, seal: Mapping[str, Any]) -> str:
    """The keyed hash of a checkpoint."""
    columns = ("first_number", "number", "entry_id", "time", "digest", "hash", "purged_time")
    return _keyed(key, "purged", [seal[name] for name in columns])


def _keyed(key: bytes, kind: str, content: Any) -> str:
    options = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    return hmac.digest(key, orjson.dumps([kind, content], default=_time_in_utc, option=options), "sha256").hex()


def _time_in_utc(value: Any) -> str:
    """Times as they are in UTC, whatever the zone of the connection that has read them."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(type(value))
