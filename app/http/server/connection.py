"""A client connection: the received part of the next request, and the unsent part of the last response.

Nothing here waits for the client. Header and body are buffered as they arrive, until the request is complete; a
response is written to the socket, and what the socket does not take at once is sent when it is writable again.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import struct
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from gunicorn.config import Config

from app.errors import ServiceError
from app.http.proxies import without_port
from app.http.server.outgoing import MAX_IN_MEMORY, Outgoing, Stream
from app.http.server.request import (
    FRAMING_DETAIL,
    MAX_REQUEST_LINE,
    MEMORY_WEIGHT,
    Body,
    Limits,
    MalformedChunked,
    Request,
    invalid,
)

logger = logging.getLogger(__name__)


# Which clients belong together: those of one address, or of one network that is given to a single customer.

IPV6_NETWORK_BYTES = 8
"""Bytes of an IPv6 address that name a customer's network: whoever has one address has all of its /64."""
IPV4_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
LOCAL_CLIENT = "local"
"""The key of clients of a socket in the file system."""
MAX_KEY_LENGTH = 100
"""Characters of a key: a proxy may pass on what a client has sent."""


def client_key(client: Any) -> str:
    """The key of a client by the address that its socket has."""
    return address_key(client[0]) if isinstance(client, tuple) else LOCAL_CLIENT


def address_key(address: str) -> str:
    """The key of an address; any text that is none is its own."""
    if ":" not in address:
        return address
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    return socket.inet_ntoa(packed[12:]) if packed.startswith(IPV4_MAPPED_PREFIX) else packed[:IPV6_NETWORK_BYTES].hex()


def forwarded_key(headers: Sequence[tuple[str, str]], hops: int) -> str | None:
    """The key of the address that the first of that many trusted proxies has seen; None if they do not tell it."""
    seen = ",".join(value for name, value in headers if name == "X-FORWARDED-FOR").split(",")
    return (
        address_key(without_port(seen[-hops])[:MAX_KEY_LENGTH]) if len(seen) >= hops and seen[-hops].strip() else None
    )


LINGER_SECONDS = 30.0
LINGER_BYTES = 256 * 1024 * 1024
"""Time and bytes for which a client may continue to send after the response: unread data would make the system reset
the connection, and the client would never see the response (lingering close)."""

MAX_EMPTY_LINES = 8 * 1024
"""Bytes of empty lines before a request, which are dropped (RFC 9112: 2.2)."""
HEADER_BYTES = 256
"""Bytes that a field of a header takes in memory besides its text."""
STREAM_BYTES = 256 * 1024
"""Bytes that are counted for what produces a streamed answer."""
TURN_SECONDS = 0.25
"""Seconds after which a streamed answer leaves its thread to others, although its client takes more."""

END_OF_HEAD = b"\r\n\r\n"
EMPTY_LINES = re.compile(rb"(?:\r\n)+")
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: the system drops what it has not sent, and tells the client that the connection has failed."""
BARE_LF = re.compile(rb"(?<!\r)\n")
CONTINUE_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\n"


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
        self.peer_address = self.address = client_key(client)  # that of the client itself, where proxies tell it
        self.holding: Any = None  # where Connections counts it, and how much
        self.counted = 0
        self.state = ConnectionState.IDLE
        self.deadline = time.monotonic() + limits.header_seconds
        self.began = 0.0  # when the client began to send its header or body, or to be slow in taking its answer
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
        self._empty_lines = 0
        self._head_bytes = 0
        self._request: Request | None = None
        self._body: Body | None = None
        self._transferred = 0
        self._outgoing = Outgoing()
        self.stream: Stream | None = None
        self._paused_at = 0.0

    @property
    def is_kept(self) -> bool:
        """Whether the connection is idle after an answer."""
        return self._kept and self.state is ConnectionState.IDLE

    @property
    def weight(self) -> int:
        """What is held for the client: bytes in files, and those in memory `MEMORY_WEIGHT` times."""
        outgoing, body = self._outgoing, self._body
        in_memory, in_files = len(self._buffer) + self._head_bytes, 0
        if outgoing.left:
            in_memory += outgoing.in_memory
            in_files += outgoing.in_file
        if self.stream is not None:
            in_memory += STREAM_BYTES
        if body is not None:
            in_memory += 0 if body.is_in_file else body.size
            in_files += body.size if body.is_in_file else 0
        return MEMORY_WEIGHT * in_memory + in_files

    # ------------------------------------------------------------------------------------------ receiving

    def feed(self, data: bytes | memoryview) -> Request | None:
        """Buffers the data; returns the request once it is complete or certain never to become complete."""
        self._buffer += data
        self._transferred += len(data)
        return self.next_request()

    def next_request(self) -> Request | None:
        """A request from the buffer, as `feed` returns it: a client may send one before it has the last response."""
        request = self._request or self._parse_head()
        if request is None:
            return None
        try:
            if self._body is not None:
                if not self._body.feed(self._buffer):
                    self.deadline = self._limits.transfer_deadline(self.began, self._transferred)
                    return None
                if self._body.is_too_long:
                    self._ignore_rest(request)
                request.set_body(self._body.size, self._body.rewound())
        except MalformedChunked:
            return self.refuse(invalid(FRAMING_DETAIL))
        except OSError:  # the disk is full
            return self.refuse(ServiceError("service_unavailable"))
        self.state = ConnectionState.PROCESSING
        return request

    def rewind_body(self) -> None:
        """Makes the body of a request that is repeated readable from its start."""
        if self._body is not None:
            self._body.rewound()

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

    def spill(self) -> bool:
        """Moves a body from memory into its file; False when the disk is full."""
        try:
            if self._body is not None:
                self._body.spill()
        except OSError:
            return False
        return True

    def _parse_head(self) -> Request | None:
        if self._buffer.startswith(b"\r\n"):
            self._empty_lines += (end := EMPTY_LINES.match(self._buffer).end())  # type: ignore[union-attr]  # it matches
            del self._buffer[:end]
            if self._empty_lines > MAX_EMPTY_LINES:
                return self.refuse(invalid(f"More than {MAX_EMPTY_LINES:,} bytes of empty lines came before it."))
        if not self._buffer:
            return None
        if self.state is ConnectionState.IDLE:
            self.state = ConnectionState.HEAD
            self.began = time.monotonic()
            if self._kept:
                self.deadline = self.began + self._limits.header_seconds
        end = self._buffer.find(END_OF_HEAD, self._searched)
        if end < 0 and not self._exceeds_limits():
            self._searched = max(0, len(self._buffer) - len(END_OF_HEAD) + 1)
            return None
        head = bytes(self._buffer if end < 0 else self._buffer[: end + len(END_OF_HEAD)])
        del self._buffer[: len(head)]
        self._searched = self._empty_lines = 0
        self._request = request = Request(self._cfg, head, self.client)
        self._head_bytes = 2 * len(head) + HEADER_BYTES * len(request.headers)
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
            self.began = time.monotonic()
            self._transferred = 0
            self.identify(request)
            self._body = Body(length, self._limits.body_bytes)
            if expects_continue and not self._buffer:
                with contextlib.suppress(OSError):
                    self.sock.send(CONTINUE_RESPONSE)

    def _ignore_rest(self, request: Request) -> None:
        request.force_close()
        self.unread = True

    def identify(self, request: Request) -> None:
        """Names the client for which the proxies in front (TRUSTED_PROXIES) have sent the request."""
        if self._limits.trusted_proxies:
            self.address = forwarded_key(request.headers, self._limits.trusted_proxies) or self.peer_address

    def _close_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    # ------------------------------------------------------------------------------------------ sending

    def sendall(self, data: bytes) -> None:
        """Queues the data for `flush`: header and body are sent in one piece."""
        self._outgoing.add(data)

    def share_output(self) -> None:
        """The body that is queued is kept in memory anyway."""
        self._outgoing.shared = True

    def discard_output(self) -> None:
        """Discards what `flush` has not sent."""
        self._outgoing.discard()

    @property
    def unsent(self) -> int:
        """Bytes of the answer that the system has not taken."""
        return self._outgoing.left

    def flush(self) -> None:
        """Sends what the socket accepts now."""
        if not self._outgoing.left:
            return
        try:
            self._transferred += self._outgoing.send(self.sock)
        except BlockingIOError:
            return
        except OSError:
            self.broken = True

    def continue_stream(self) -> None:
        """Produces and sends a streamed answer until its client takes no more, or its turn of the thread is over.
        Raises `BrokenStream`."""
        until = time.monotonic() + TURN_SECONDS
        while self.stream is not None and not self.unsent and not self.broken and time.monotonic() < until:
            self._outgoing.add(self.stream.go_on())
            if self.stream.has_ended:
                self._close_stream()
            self.flush()
        self.began += time.monotonic() - self._paused_at  # the time is not its client's

    def pause(self) -> None:
        """The client has taken what there is of a streamed answer, and more is to be produced."""
        self._paused_at = time.monotonic()

    def store_output(self, *, at_once: bool) -> None:
        """Moves what the client has not taken from memory into a file if it is large, or else `at_once`."""
        if at_once or self._outgoing.left > MAX_IN_MEMORY:
            self._outgoing.store()

    def _close_stream(self) -> None:
        if self.stream is not None:
            stream, self.stream = self.stream, None
            stream.close()

    def end_request(self) -> None:
        """Ends the request; what arrived after it stays buffered."""
        self.unread = self.unread or (bool(self._buffer) and not self.keep_alive)
        self._request = None
        self._head_bytes = 0
        self._close_body()

    def await_request(self, seconds: float) -> None:
        """Waits for a further request."""
        self.state = ConnectionState.IDLE
        self.address = self.peer_address
        self._kept = True
        self.unread = False
        self.deadline = time.monotonic() + seconds

    def await_client(self) -> None:
        """Waits for a client that reads slowly."""
        if self.state is not ConnectionState.RESPONSE:
            self.state = ConnectionState.RESPONSE
            self.began = time.monotonic()
            self._transferred = 0
        self.deadline = self._limits.transfer_deadline(self.began, self._transferred)

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
        """Closes it. A client that has not got all of its answer learns of that, whatever its version of HTTP."""
        self._close_body()
        with contextlib.suppress(OSError):
            if self.unsent or self.stream is not None:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self.sock.close()
        self._outgoing.discard()
        try:
            self._close_stream()
        except Exception:
            logger.exception("a streamed answer cannot be ended")
