"""A request as gunicorn's parser reads it, and its body as it arrives: in memory while it is small, then in an unnamed
file. One that cannot be parsed is a request with a fault, which the application answers like any other, in the API's
error format and with a request id.
"""

from __future__ import annotations

import contextlib
import logging
import re
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, cast

from gunicorn.config import Config
from gunicorn.http import errors, message
from gunicorn.http.body import ChunkedReader
from gunicorn.http.unreader import IterUnreader

from app.errors import ServiceError
from app.http.repetition import Attempts
from app.settings import Settings

logger = logging.getLogger(__name__)


# Limits of what an unauthenticated client can use of a process.


MAX_REQUEST_LINE = 256 * 1024
"""Maximum of a request line. A filter takes 1,000 values (docs/querying.md#filters), which is more than gunicorn's own
maximum."""

MEMORY_WEIGHT = 4
"""A byte in memory counts as much as that many in a file."""

OTHER_FILES = 200
"""File descriptors that a process needs besides those of its clients."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes (docs/settings.md)."""

    header_seconds: float
    body_seconds: float
    least_rate: int
    keepalive_seconds: float
    queue_seconds: float
    body_bytes: int
    held_bytes: int
    trusted_proxies: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            header_seconds=settings.header_seconds,
            body_seconds=settings.body_seconds,
            least_rate=settings.least_rate,
            keepalive_seconds=settings.keepalive_seconds,
            queue_seconds=settings.queue_seconds,
            body_bytes=settings.max_request_bytes,
            held_bytes=settings.web_buffer_bytes,
            trusted_proxies=settings.trusted_proxies,
        )

    def transfer_deadline(self, began: float, size: int) -> float:
        """When the client must have sent or taken more than these bytes, of which it has just sent or taken the
        last."""
        return min(began + size / self.least_rate, time.monotonic()) + self.body_seconds


def max_connections(requested: int) -> int:
    """Number of clients that a process can serve, after raising its limit of open files. A client needs two: its
    connection, and the file of a large body."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * requested + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = needed if soft == resource.RLIM_INFINITY else soft
    most = max(1, min(requested, (files - OTHER_FILES) // 2))
    if most < requested:
        text = "this process can hold only %s connections, not WEB_CONNECTIONS=%s, because of the limit on open files"
        logger.warning(text, most, requested)
    return most


def read_once(cfg: Config) -> Config:
    """Makes gunicorn's settings plain attributes: it looks up each by its name whenever it is asked for, a dozen times
    in a request."""
    vars(cfg).update({name: setting.get() for name, setting in cfg.settings.items()})
    return cfg


NON_ASCII_BYTE = re.compile(rb"[\x80-\xff]")
METHOD = re.compile(r"[!-~]{1,20}")
PATH = re.compile(r"/[!-~]{0,999}")
VERSIONS = ((1, 0), (1, 1))

PARSE_ERROR_DETAILS: dict[type[Exception], str] = {
    errors.LimitRequestLine: f"The request line is longer than {MAX_REQUEST_LINE:,} bytes.",
    errors.LimitRequestHeaders: "The header has more than 100 fields, or a field that is longer than 8,190 bytes.",
    errors.ExpectationFailed: "This service supports only 100-continue as a value of Expect.",
    errors.UnsupportedTransferCoding: "This service supports only the transfer coding chunked.",
    errors.InvalidRequestMethod: "The method does not consist of 3 to 20 capital letters.",
    errors.InvalidHTTPVersion: "The request line does not end with HTTP/1.1 or HTTP/1.0. A space in a URL is sent as "
    "%20.",
    errors.InvalidRequestLine: "The request line is not a method, a URL and HTTP/1.1, with one space between them and "
    "a line break of CR and LF at the end. Control characters in a URL are percent-encoded.",
}
HEADER = (
    "A field of the header is malformed: `Name: value` with a line break of CR and LF, no control characters, and "
    "Host and Content-Type at most once."
)
FRAMING_DETAIL = "The length of the body is ambiguous: send either one Content-Length or `Transfer-Encoding: chunked`."


class Request(message.Request):  # type: ignore[misc]
    """The header of a request. `fault` is the error to answer with, if it is invalid."""

    fault: ServiceError | None = None
    method: str | None
    path: str | None
    version: tuple[int, int] | None
    headers: list[tuple[str, str]]
    body: Any
    _expected_100_continue: bool

    def __init__(self, cfg: Config, head: bytes, client: Any) -> None:
        self.attempts = Attempts()
        self._head = head
        super().__init__(cfg, IterUnreader([_ascii_target(head)]), client)

    def parse(self, unreader: Any) -> bytes:
        """Raises nothing that the client causes."""
        line, _, fields = self._head.partition(b"\r\n")
        try:
            if len(line) > MAX_REQUEST_LINE:
                raise errors.LimitRequestLine(len(line), MAX_REQUEST_LINE)
            if fields.count(b"\n") > self.limit_request_fields + 1:
                raise errors.LimitRequestHeaders("too many")
            super().parse(unreader)
        except (errors.ParseException, errors.NoMoreData, StopIteration) as error:
            self.set_fault(invalid(PARSE_ERROR_DETAILS.get(type(error), HEADER)))
        return b""

    def set_body_reader(self) -> None:
        """Raises nothing that the client causes."""
        try:
            super().set_body_reader()
            if any(name == "TRANSFER-ENCODING" and value.lower() != "chunked" for name, value in self.headers):
                raise errors.UnsupportedTransferCoding("more than chunked")
        except errors.ParseException as error:
            self.set_fault(invalid(PARSE_ERROR_DETAILS.get(type(error), FRAMING_DETAIL)))
            super().set_body_reader()

    def consume_expect_continue(self) -> bool:
        """Whether the client waits for `100 Continue`. True only once: the connection sends it."""
        waits, self._expected_100_continue = self._expected_100_continue, False
        return waits

    def length(self) -> int | None:
        """Length of the body; None for a chunked one."""
        reader = self.body.reader
        return None if isinstance(reader, ChunkedReader) else int(reader.length)

    def set_body(self, size: int, body: IO[bytes]) -> None:
        """Sets the body. A chunked one now has a length, by which the application can refuse it."""
        self.body = body
        fields = (field for field in self.headers if field[0] not in ("CONTENT-LENGTH", "TRANSFER-ENCODING"))
        self.headers = [*fields, ("CONTENT-LENGTH", str(size))]

    def set_fault(self, fault: ServiceError) -> None:
        """Makes the application answer with this error and the connection close after it."""
        self.fault = fault
        self.force_close()
        method, _, rest = self._head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if not self.method:
            self.method = method if METHOD.fullmatch(method) else ""
        if not self.path:
            self.uri = self.path = path if PATH.fullmatch(path) else "/"
        self.query = ""
        self.headers = []
        if self.version not in VERSIONS:
            self.version = VERSIONS[-1]


def invalid(detail: str) -> ServiceError:
    """400: the request could not be understood."""
    return ServiceError("invalid_request", detail=detail)


def _ascii_target(head: bytes) -> bytes:
    """The header with the target of the request percent-encoded: a client may send UTF-8 as it is
    (docs/requests.md#paths-and-ids)."""
    line, end, fields = head.partition(b"\r\n")
    if line.isascii():
        return head
    method, space, target = line.partition(b" ")
    return method + space + NON_ASCII_BYTE.sub(lambda match: b"%%%02X" % match[0][0], target) + end + fields


# Incremental decoder of the chunked transfer coding (RFC 9112: 7.1).

MAX_LINE_BYTES = 1024
"""Bytes of the line before a chunk, and of each line after the last one."""
MAX_TRAILERS = 100

SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?")
TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class MalformedChunked(Exception):
    """Invalid chunked transfer coding."""


class ChunkedDecoder:
    """Passes the content of the chunks to `write`; framing and trailers are dropped."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._left = 0
        self._step: Callable[[bytes], bool] = self._size
        self._trailers = 0

    def feed(self, buffer: bytearray) -> bool:
        """Removes the body's bytes from the front of the buffer; True at the end of the body.

        Raises `MalformedChunked`.
        """
        while True:
            if self._left:
                part = bytes(buffer[: self._left])
                del buffer[: len(part)]
                self._write(part)
                self._left -= len(part)
                if self._left:
                    return False
            end = buffer.find(b"\r\n", 0, MAX_LINE_BYTES + 2)
            if end < 0:
                if len(buffer) > MAX_LINE_BYTES:
                    raise MalformedChunked
                return False
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            if self._step(line):
                return True

    def _size(self, line: bytes) -> bool:
        size_line = SIZE.fullmatch(line)
        if size_line is None:
            raise MalformedChunked
        self._left = int(size_line[1], 16)
        self._step = self._end_of_chunk if self._left else self._trailer
        return False

    def _end_of_chunk(self, line: bytes) -> bool:
        if line:
            raise MalformedChunked
        self._step = self._size
        return False

    def _trailer(self, line: bytes) -> bool:
        """An empty line is the end of the body."""
        if not line:
            return True
        self._trailers += 1
        if self._trailers > MAX_TRAILERS or not TRAILER.fullmatch(line):
            raise MalformedChunked
        return False


MAX_IN_MEMORY = 256 * 1024
"""Bytes; a larger body is kept in a file."""
MIN_BYTES_IN_FILE = 4 * 1024
"""Bytes from which a body is worth a file when memory is short."""


class Body:
    """`length` is None for a chunked body, which may have `max_bytes`. `size` is what has been received so far."""

    def __init__(self, length: int | None, max_bytes: int) -> None:
        self._file = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 - closed with the body
        self._chunks = ChunkedDecoder(self._write) if length is None else None
        self.size = 0
        self.is_in_file = False
        self._left = length or 0
        self._max_bytes = max_bytes

    def feed(self, buffer: bytearray) -> bool:
        """Removes the body's bytes from the front of the buffer; True if it is complete or too long.

        Raises `MalformedChunked`, and OSError when the disk is full.
        """
        if self._chunks is not None:
            return self._chunks.feed(buffer) or self.is_too_long
        part = buffer[: self._left]
        del buffer[: len(part)]
        self._write(part)
        self._left -= len(part)
        return not self._left

    def _write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self.size += len(data)
        self.is_in_file = self.is_in_file or self.size > MAX_IN_MEMORY

    def spill(self) -> None:
        """Moves what has been received into the file, unless it is not worth one. Raises OSError."""
        if not self.is_in_file and self.size >= MIN_BYTES_IN_FILE:
            self._file.rollover()
            self.is_in_file = True

    @property
    def is_too_long(self) -> bool:
        """Whether a chunked body has exceeded its limit."""
        return self._chunks is not None and self.size > self._max_bytes

    def rewound(self) -> IO[bytes]:
        """The file, at its start. Raises OSError when the disk is full."""
        self._file.seek(0)
        return cast("IO[bytes]", self._file)

    def close(self) -> None:
        """Closes the file. What the disk does not take of its end is no longer needed."""
        with contextlib.suppress(OSError):
            self._file.close()
