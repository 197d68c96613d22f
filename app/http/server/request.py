"""A request as gunicorn's parser reads it. One that cannot be parsed is a request with a fault, which the application
answers like any other, in the API's error format and with a request id."""

from __future__ import annotations

import re
from typing import IO, Any

from gunicorn.config import Config
from gunicorn.http import errors, message
from gunicorn.http.body import ChunkedReader
from gunicorn.http.unreader import IterUnreader

from app.errors import ServiceError
from app.http.server.limits import MAX_REQUEST_LINE

RAW = re.compile(rb"[\x80-\xff]")
METHOD = re.compile(r"[!-~]{1,20}")
PATH = re.compile(r"/[!-~]{0,999}")
VERSIONS = ((1, 0), (1, 1))

DETAILS: dict[type[Exception], str] = {
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
FRAMING = "The length of the body is ambiguous: send either one Content-Length or `Transfer-Encoding: chunked`."


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
            self.set_fault(invalid(DETAILS.get(type(error), HEADER)))
        return b""

    def set_body_reader(self) -> None:
        """Raises nothing that the client causes."""
        try:
            super().set_body_reader()
            if any(name == "TRANSFER-ENCODING" and value.lower() != "chunked" for name, value in self.headers):
                raise errors.UnsupportedTransferCoding("more than chunked")
        except errors.ParseException as error:
            self.set_fault(invalid(DETAILS.get(type(error), FRAMING)))
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
    return method + space + RAW.sub(lambda found: b"%%%02X" % found[0][0], target) + end + fields
