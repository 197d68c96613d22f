"""Counts round trips to PostgreSQL, as libpq's own record of the protocol has them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

ANSWERED = b"ReadyForQuery"
"""What the server says after each statement, or after all statements that came together."""


class RoundTrips:
    """Counts those of an engine's connections."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._used: set[Any] = set()

    @property
    def count(self) -> int:
        """The number of round trips so far. No statement may be under way."""
        for connection in self._used:
            connection.pgconn.untrace()  # which writes what libpq still holds
            connection.pgconn.trace(self._descriptor)
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0).count(ANSWERED)

    def begin(self, connection: Any, *_: object) -> None:
        """Handles the pool's event `checkout`."""
        connection.pgconn.trace(self._descriptor)
        self._used.add(connection)

    def end(self, connection: Any, *_: object) -> None:
        """Handles the pool's event `checkin`."""
        if connection in self._used and not connection.closed:
            connection.pgconn.untrace()
        self._used.discard(connection)


@contextmanager
def counted_round_trips(engine: Engine) -> Iterator[RoundTrips]:
    """Counts from here to the end of the block, over all connections that the pool hands out."""
    with tempfile.TemporaryFile() as record:
        counted = RoundTrips(record.fileno())
        event.listen(engine, "checkout", counted.begin)
        event.listen(engine, "checkin", counted.end)
        try:
            yield counted
        finally:
            event.remove(engine, "checkout", counted.begin)
            event.remove(engine, "checkin", counted.end)
