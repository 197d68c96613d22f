"""Reading requests from connections, in the thread that owns them."""

from __future__ import annotations

import logging

from app.errors import ServiceError
from app.http.server.admission import PendingRequest
from app.http.server.connection import Connection, ConnectionState
from app.http.server.connections import Connections
from app.http.server.request import invalid

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
MAX_READS = 16
"""Reads per report, so that a fast client does not keep the thread from the others."""
MISSING = {ConnectionState.HEAD: "header", ConnectionState.BODY: "body"}
"""The part that an incomplete request lacks."""


class Receiver:
    """Reads what has arrived, and refuses what must not arrive."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def read(self, connection: Connection, buffer: memoryview) -> PendingRequest | None:
        """Reads what has arrived. Returns the connection's request if it is to be answered now. Otherwise the
        connection waits for its client, or is closed."""
        for _ in range(MAX_READS):
            try:
                count = connection.sock.recv_into(buffer)
            except BlockingIOError:
                break
            except OSError:
                self._connections.close(connection)
                return None
            if connection.state is ConnectionState.LINGERING:
                if connection.count_lingering(count):
                    self._connections.close(connection)
                    return None
            elif not count:
                return self._on_eof(connection)
            else:
                request = connection.feed(buffer[:count])
                if request is not None:
                    return PendingRequest(connection, request)
            if count < len(buffer):
                break
        if self._connections.is_tight(connection) and not connection.spill():
            return self.refuse(connection, ServiceError("service_unavailable"))
        self._connections.wait(connection)
        return None

    def _on_eof(self, connection: Connection) -> PendingRequest | None:
        """The client has closed its side. It may still wait for the response to an incomplete body."""
        if connection.state is ConnectionState.BODY:
            return self.refuse(connection, invalid("The body ended before it was complete."))
        self._connections.close(connection)
        return None

    def refuse(self, connection: Connection, fault: ServiceError) -> PendingRequest | None:
        """The connection's request, complete or not, as one to be answered with this error. An answer that is not taken
        ends instead."""
        if connection.state in MISSING or connection.state is ConnectionState.PROCESSING:
            try:
                return PendingRequest(connection, connection.refuse(fault))
            except Exception:
                logger.exception("a connection is closed after an error")
        self._connections.close(connection)
        return None

    def expire(self, connection: Connection) -> PendingRequest | None:
        """The client has been too slow: an incomplete request is refused, any other connection is closed."""
        missing = MISSING.get(connection.state)
        if missing is not None:
            return self.refuse(connection, invalid(f"The {missing} of the request did not come in time."))
        self._connections.close(connection)
        return None
