"""A client connection: the received part of the next request, and the unsent part of the last response.

Nothing here blocks. Header and body are buffered as they arrive, until the request is complete; a response is written
to the socket, and what the socket does not take at once is sent when it is writable again.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from enum import Enum, auto
from typing import Any

from gunicorn.config import Config

from app.errors import ServiceError
from app.http.server.body import Body
from app.http.server.chunked import MalformedChunked
from app.http.server.limits import MAX_REQUEST_LINE, Limits
from app.http.server.request import FRAMING, Request, invalid

LINGER_SECONDS = 30.0
LINGER_BYTES = 256 * 1024 * 1024
"""Time and bytes for which a client may continue to send after the response: unread data would make the system reset
the connection, and the client would never see the response (lingering close)."""

END_OF_HEAD = b"\r\n\r\n"
BARE_LF = re.compile(rb"(?<!\r)\n")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ConnectionState(Enum):
    """What the connection waits for."""

    IDLE = auto()  # the first byte of a request
    HEAD = auto()
    BODY = auto()
    PROCESSING = auto()  # its response: the request is complete
    RESPONSE = auto()  # the client, which reads the response slowly
    LINGERING = auto()  # the client's close, after this side has shut down sending


class Connection:
    """Used by its owner alone (app/http/server/connections.py). gunicorn's Response uses it as its socket: it has
    `sendall`."""

    def __init__(self, cfg: Config, sock: socket.socket, client: Any, server: Any, limits: Limits) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.descriptor = sock.fileno()
        self.client = client
        self.server = server
        self.state = ConnectionState.IDLE
        self.deadline = time.monotonic() + limits.header_seconds
        self.size = 0  # bytes of the request received so far
        self.is_waiting = False  # for its client, armed at the poller and without an owner
        self.unread = False  # whether more than the request may have arrived
        self.keep_alive = False
        self.broken = False
        self.lingering_bytes = 0
        self._cfg = cfg
        self._limits = limits
        self._kept = False
        self._buffer = bytearray()
        self._searched = 0
        self._request: Request | None = None
        self._body: Body | None = None
        self._began = 0.0
        self._out: list[bytes] = []
        self.unsent = memoryview(b"")

    # ------------------------------------------------------------------------------------------ receiving

    def feed(self, data: bytes | memoryview) -> Request | None:
        """Buffers the data; returns the request once it is complete or certain never to become complete."""
        self._buffer += data
        return self.next_request()

    def next_request(self) -> Request | None:
        """As `feed`, from the buffer: a client may send a request before it has the last response."""
        request = self._request or self._parse_head()
        if request is None:
            return None
        try:
            if self._body is not None and not self._body.feed(self._buffer):
                self.deadline = self._began + self._limits.transfer_seconds(self.size)
                return None
        except MalformedChunked:
            return self.refuse(invalid(FRAMING))
        except OSError:  # the disk is full
            return self.refuse(ServiceError("service_unavailable"))
        if self._body is not None:
            if self._body.is_too_long:
                self._ignore_rest(request)
            request.set_body(self._body.size, self._body.rewound())
        self.state = ConnectionState.PROCESSING
        return request

    def refuse(self, fault: ServiceError) -> Request:
        """The request as one that is answered with this error instead."""
        request = self._request or Request(self._cfg, bytes(self._buffer), self.client)
        request.set_fault(fault)
        self._request = request
        self._close_body()
        self._buffer.clear()
        self.unread = True
        self.state = ConnectionState.PROCESSING
        return request

    def _parse_head(self) -> Request | None:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        if not self._buffer:
            return None
        if self.state is ConnectionState.IDLE:
            self.state = ConnectionState.HEAD
            if self._kept:
                self.deadline = time.monotonic() + self._limits.header_seconds
        end = self._buffer.find(END_OF_HEAD, self._searched)
        if end < 0 and not self._exceeds_limits():
            self._searched = max(0, len(self._buffer) - len(END_OF_HEAD) + 1)
            return None
        head = bytes(self._buffer if end < 0 else self._buffer[: end + len(END_OF_HEAD)])
        del self._buffer[: len(head)]
        self._searched = 0
        self._request = request = Request(self._cfg, head, self.client)
        self._expect_body(request)
        return request

    def _exceeds_limits(self) -> bool:
        """Whether the buffer can no longer become a header that the parser accepts."""
        line = self._buffer.find(b"\r\n", 0, MAX_REQUEST_LINE + 2)
        fields = int(self._cfg.limit_request_fields) * (int(self._cfg.limit_request_field_size) + 2)
        longest = MAX_REQUEST_LINE if line < 0 else line + fields
        return len(self._buffer) > longest + 2 or BARE_LF.search(self._buffer, self._searched) is not None

    def _expect_body(self, request: Request) -> None:
        expects_continue = request.consume_expect_continue()
        length = request.length()
        if request.fault is not None:
            self.unread = True
        elif length is not None and length > self._limits.body_bytes:
            # The application refuses it because of its Content-Length, after the checks that come first
            # (docs/requests.md#order-of-checks).
            self._ignore_rest(request)
        elif length != 0:
            self.state = ConnectionState.BODY
            self._began = time.monotonic()
            self._body = Body(length, self._limits.body_bytes)
            if expects_continue and not self._buffer:
                with contextlib.suppress(OSError):
                    self.sock.send(CONTINUE)

    def _ignore_rest(self, request: Request) -> None:
        request.force_close()
        self.unread = True

    def _close_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    # ------------------------------------------------------------------------------------------ sending

    def sendall(self, data: bytes) -> None:
        """Queues the data for `flush`: header and body are sent in one piece."""
        self._out.append(data)

    def discard_output(self) -> None:
        """Discards what `flush` has not sent."""
        self._out.clear()

    def flush(self) -> None:
        """Sends what the socket accepts now; the rest stays in `unsent`."""
        if self._out:
            self.unsent = memoryview(b"".join((self.unsent, *self._out)))
            self._out.clear()
        try:
            self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.broken = True

    def end_request(self) -> None:
        """Ends the request; what arrived after it stays buffered."""
        self.unread = self.unread or (bool(self._buffer) and not self.keep_alive)
        self._request = None
        self._close_body()

    @property
    def buffered(self) -> int:
        """Bytes that have arrived after the request."""
        return len(self._buffer)

    def await_request(self, seconds: float) -> None:
        """Waits for a further request."""
        self.state = ConnectionState.IDLE
        self._kept = True
        self.unread = False
        self.deadline = time.monotonic() + seconds

    def await_client(self) -> None:
        """Waits for a client that reads slowly."""
        if self.state is not ConnectionState.RESPONSE:
            self.state = ConnectionState.RESPONSE
            self.deadline = time.monotonic() + self._limits.transfer_seconds(len(self.unsent))

    def begin_lingering_close(self) -> bool:
        """Shuts down sending; True when there is nothing to wait for from the client."""
        if not self.unread and not self._has_unread():
            return True
        self.state = ConnectionState.LINGERING
        self.deadline = time.monotonic() + LINGER_SECONDS
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return True
        return False

    def _has_unread(self) -> bool:
        """Whether the client has sent more meanwhile."""
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def count_lingering(self, count: int) -> bool:
        """Counts bytes received while lingering; True at their end or limit."""
        self.lingering_bytes += count
        return not count or self.lingering_bytes > LINGER_BYTES

    def close(self) -> None:
        self._close_body()
        with contextlib.suppress(OSError):
            self.sock.close()
