"""Counts round trips to PostgreSQL, as libpq's own record of the protocol has them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from sqlalchemy import Engine, event

ANSWERED = b"ReadyForQuery"
"""What the server says after each statement, or after all statements that came together."""


class RoundTrips:
    """Counts those of an engine's connections."""

    def __init__(self, record: IO[bytes]) -> None:
        self._record = record

    @property
    def count(self) -> int:
        """So far: no statement may be under way."""
        self._record.seek(0)
        return self._record.read().count(ANSWERED)


@contextmanager
def counted_round_trips(engine: Engine) -> Iterator[RoundTrips]:
    """Counts from here to the end of the block, over all connections that the pool hands out."""
    with tempfile.TemporaryFile() as record:

        def begin(connection: Any, *_: object) -> None:
            connection.pgconn.trace(record.fileno())

        def end(connection: Any, *_: object) -> None:
            if connection is not None and not connection.closed:
                connection.pgconn.untrace()

        event.listen(engine, "checkout", begin)
        event.listen(engine, "checkin", end)
        try:
            yield RoundTrips(record)
        finally:
            event.remove(engine, "checkout", begin)
            event.remove(engine, "checkin", end)
