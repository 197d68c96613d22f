"""How often each of very many keys has occurred, in memory that does not grow with them: they are in a temporary file,
which SQLite deletes at the end, as hashes of equal length."""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from types import TracebackType

SET_UP = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA cache_size=-8192",
    "CREATE TABLE keys (key BLOB PRIMARY KEY, place INTEGER, times INTEGER) WITHOUT ROWID",
    "BEGIN",
)
ADD = "INSERT INTO keys VALUES (?, ?, 0) ON CONFLICT (key) DO UPDATE SET times = times + 1 RETURNING times, place"
KEY_BYTES = 16


class KeyCounts:
    """Counts for one pass over keys; to be closed."""

    def __init__(self) -> None:
        # A database without a name is a file that nothing else can open.
        self._connection = sqlite3.connect("", isolation_level=None)
        for statement in SET_UP:
            self._connection.execute(statement)

    def add(self, key: str, place: int) -> tuple[int, int]:
        """Counts the key. Returns how often it occurred before, and the place of its first time."""
        digest = blake2b(key.encode(), digest_size=KEY_BYTES).digest()
        times, first = self._connection.execute(ADD, (digest, place)).fetchone()
        return int(times), int(first)

    def __enter__(self) -> KeyCounts:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._connection.close()
