"""One client's connection: what has come of its next request, and what is still to go out of the last answer.

Nothing here waits. A header and a body are gathered as they come, and a thread gets the request when it is whole; an
answer is handed to the system, and what the system does not take at once goes out bit by bit.
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
from app.http.server.chunked import MalformedChunks
from app.http.server.limits import LONGEST_LINE, Limits
from app.http.server.request import FRAMING, Request, invalid

PARTING_SECONDS = 30.0
PARTING_BYTES = 256 * 1024 * 1024
"""How long, and how much, a client may go on sending what nobody wants any more: it has to be read, or the system
resets the connection, and the client never sees the answer."""

END_OF_HEAD = b"\r\n\r\n"
BARE_LF = re.compile(rb"(?<!\r)\n")
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stage(Enum):
    """What a connection waits for."""

    IDLE = auto()  # the first byte of a request
    HEAD = auto()
    BODY = auto()
    BUSY = auto()  # a thread: the request is whole
    ANSWER = auto()  # the client, which reads slowly
    PARTING = auto()  # the client's end of a connection that has ended on this side


class Connection:
    """As the worker's loop sees it. To gunicorn's Response it is the socket: it has `sendall`."""

    def __init__(self, cfg: Config, link: socket.socket, client: Any, server: Any, limits: Limits) -> None:
        link.setblocking(False)
        self.link = link
        self.client = client
        self.server = server
        self.stage = Stage.IDLE
        self.deadline = time.monotonic() + limits.header_seconds
        self.size = 0  # bytes that have come of the request
        self.watched = 0  # the events for which the loop's poller looks
        self.queued_at = 0.0
        self.unread = False  # whether more may have come than the request
        self.keep = False
        self.broken = False
        self.drained = 0
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

    # ------------------------------------------------------------------------------------------ coming in

    def take(self, data: bytes | memoryview) -> Request | None:
        """Takes in what has come; the request, once it is whole or is seen never to become so."""
        self._buffer += data
        return self.go_on()

    def go_on(self) -> Request | None:
        """As `take`, with what is there already: a client may send a request before it has the last answer."""
        request = self._request or self._take_head()
        if request is None:
            return None
        try:
            if self._body is not None and not self._body.take(self._buffer):
                self.deadline = self._began + self._limits.transfer_seconds(self.size)
                return None
        except MalformedChunks:
            return self.refuse(invalid(FRAMING))
        except OSError:  # the disk is full
            return self.refuse(ServiceError("service_unavailable"))
        if self._body is not None:
            if self._body.is_too_long:
                self._leave_rest(request)
            request.hold(self._body.size, self._body.from_start())
        self.stage = Stage.BUSY
        return request

    def refuse(self, fault: ServiceError) -> Request:
        """The request as one that is answered with this error, in place of what was asked."""
        request = self._request or Request(self._cfg, bytes(self._buffer), self.client)
        request.blame(fault)
        self._request = request
        self._forget_body()
        self._buffer.clear()
        self.unread = True
        self.stage = Stage.BUSY
        return request

    def _take_head(self) -> Request | None:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        if not self._buffer:
            return None
        if self.stage is Stage.IDLE:
            self.stage = Stage.HEAD
            if self._kept:
                self.deadline = time.monotonic() + self._limits.header_seconds
        end = self._buffer.find(END_OF_HEAD, self._searched)
        if end < 0 and not self._is_hopeless():
            self._searched = max(0, len(self._buffer) - len(END_OF_HEAD) + 1)
            return None
        head = bytes(self._buffer if end < 0 else self._buffer[: end + len(END_OF_HEAD)])
        del self._buffer[: len(head)]
        self._searched = 0
        self._request = request = Request(self._cfg, head, self.client)
        self._expect_body(request)
        return request

    def _is_hopeless(self) -> bool:
        """Whether this cannot become a header that the parser takes."""
        line = self._buffer.find(b"\r\n", 0, LONGEST_LINE + 2)
        fields = int(self._cfg.limit_request_fields) * (int(self._cfg.limit_request_field_size) + 2)
        longest = LONGEST_LINE if line < 0 else line + fields
        return len(self._buffer) > longest + 2 or BARE_LF.search(self._buffer, self._searched) is not None

    def _expect_body(self, request: Request) -> None:
        wants_word = request.takes_word()
        length = request.length()
        if request.fault is not None:
            self.unread = True
        elif length is not None and length > self._limits.body_bytes:
            # The application refuses it by its Content-Length, after the checks that come first
            # (docs/requests.md#order-of-checks).
            self._leave_rest(request)
        elif length != 0:
            self.stage = Stage.BODY
            self._began = time.monotonic()
            self._body = Body(length, self._limits.body_bytes)
            if wants_word and not self._buffer:
                with contextlib.suppress(OSError):
                    self.link.send(GO_ON)

    def _leave_rest(self, request: Request) -> None:
        request.force_close()
        self.unread = True

    def _forget_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    # ------------------------------------------------------------------------------------------ going out

    def sendall(self, data: bytes) -> None:
        """Keeps it for `flush`: a header and its body go out in one piece."""
        self._out.append(data)

    def recall(self) -> None:
        """Forgets what has not gone out."""
        self._out.clear()

    def flush(self) -> None:
        """Hands to the system what it takes now; the rest stays in `unsent`."""
        if self._out:
            self.unsent = memoryview(b"".join((self.unsent, *self._out)))
            self._out.clear()
        try:
            self.unsent = self.unsent[self.link.send(self.unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.broken = True

    def answered(self) -> None:
        """The request is done; what came behind it stays."""
        self.unread = self.unread or (bool(self._buffer) and not self.keep)
        self._request = None
        self._forget_body()
        self.size = len(self._buffer)

    def wait_for_next(self, seconds: float) -> None:
        """For a further request."""
        self.stage = Stage.IDLE
        self._kept = True
        self.unread = False
        self.deadline = time.monotonic() + seconds

    def slow_down(self) -> None:
        """Waits for a client that reads slowly."""
        if self.stage is not Stage.ANSWER:
            self.stage = Stage.ANSWER
            self.deadline = time.monotonic() + self._limits.transfer_seconds(len(self.unsent))

    def part(self) -> bool:
        """Ends this side; True when there is nothing to wait for on the other."""
        if not self.unread:
            return True
        self.stage = Stage.PARTING
        self.deadline = time.monotonic() + PARTING_SECONDS
        try:
            self.link.shutdown(socket.SHUT_WR)
        except OSError:
            return True
        return False

    def drain(self, count: int) -> bool:
        """Counts what came after the end; True when it is enough."""
        self.drained += count
        return not count or self.drained > PARTING_BYTES

    def close(self) -> None:
        """At once."""
        self._forget_body()
        with contextlib.suppress(OSError):
            self.link.close()
