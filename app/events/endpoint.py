"""A webhook endpoint: one URL, the connection that is kept to it, and the current exchange on it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, ReadTimeoutError

from app.clock import now
from app.events.guarded_connection import ConnectionFailed, Exchange, Target, Watchdog, guarded_pool

REST_TIMEOUT = 5.0
"""Seconds for the body of a response whose status is known already."""
MAX_BODY_BYTES = 64 * 1024
MAX_DETAIL = 200
MAX_ANSWER = 4 * 1024
"""Bytes of an answer that the log of attempts keeps."""
CLOSED_CONNECTION_ERRORS = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@dataclass(frozen=True, slots=True)
class PostResult:
    """Result of one POST to a webhook. `status` is None if there was no response; `detail` then gives the reason.

    `began` is the moment at which the request was sent, or the connection begun when it failed.
    """

    status: int | None
    detail: str
    began: datetime
    ended: datetime = field(default_factory=now)
    answer: str = ""
    """The first 4 KiB of the response's body."""


class StaleConnection(Exception):
    """A kept connection that the receiver closed at the moment of its next use."""


class Endpoint(Exchange):
    """Used by one thread at a time; `cut` may be called by another."""

    def __init__(
        self, target: Target, trust: ssl.SSLContext, watchdog: Watchdog, connect_timeout: float, read_timeout: float
    ) -> None:
        super().__init__()
        self.target = target
        self._watchdog = watchdog
        self._read_timeout = read_timeout
        self._longest = connect_timeout + read_timeout
        self._pool = guarded_pool(
            target,
            trust,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            on_request=self.begins,
        )
        self._is_reused = False
        self._began = now()

    def post(self, body: bytes, headers: Mapping[str, str]) -> PostResult:
        """Posts the body; raises nothing because of the network or the receiver."""
        self._was_cut = False
        # A kept connection that has ended means nothing for the batch: it is sent again, and no failed attempt is
        # logged.
        with contextlib.suppress(StaleConnection):
            return self._exchange(body, headers)
        return self._exchange(body, headers)

    def close(self) -> None:
        """Closes the kept connection."""
        self._pool.close()

    def _exchange(self, body: bytes, headers: Mapping[str, str]) -> PostResult:
        self._began = now()
        self._is_reused = False
        try:
            response = self._send(body, headers)
        except ConnectionFailed as error:
            return self._failed(str(error))
        except (HTTPError, ValueError) as error:
            cause = _cause(error)
            if self._was_cut or isinstance(cause, ReadTimeoutError | TimeoutError):
                return self._timed_out()
            if self._is_reused and isinstance(cause, CLOSED_CONNECTION_ERRORS):
                raise StaleConnection from None
            return self._failed(str(cause) or type(cause).__name__)
        with contextlib.closing(response):  # closes the connection unless the whole body was read
            if self._was_cut:  # the end of the stream then passes for the end of the headers
                return self._timed_out()
            body = self._body_start(response)
            detail = _one_line(body[: 4 * MAX_DETAIL].decode("utf-8", "replace"))
            return PostResult(response.status, detail, self._began, answer=body.decode("utf-8", "replace"))

    def _send(self, body: bytes, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """The response as soon as its headers have arrived. It has its own deadline after that of the connection."""
        with self._watchdog.cut_after(self, self._longest):
            return self._pool.urlopen(
                "POST",
                self.target.path,
                body,
                dict(headers),
                redirect=False,
                preload_content=False,
                decode_content=False,
                enforce_content_length=False,
            )

    def begins(self, connected: socket.socket) -> None:
        """Called with the connected socket before each request, whose time limit begins now."""
        self._is_reused = connected is self._socket
        super().begins(connected)
        if not self._is_reused:
            self._began = now()
        self._watchdog.restart(self, self._read_timeout)

    def _body_start(self, response: BaseHTTPResponse) -> bytes:
        """The start of the body for the log of attempts. The status is known, so no failure here counts."""
        try:
            with self._watchdog.cut_after(self, REST_TIMEOUT):
                body = response.read(MAX_BODY_BYTES)
        except HTTPError:
            return b""
        return body[:MAX_ANSWER]

    def _timed_out(self) -> PostResult:
        return self._failed(f"no answer in {self._read_timeout:g} s")

    def _failed(self, detail: str) -> PostResult:
        return PostResult(None, _one_line(detail), self._began)


def _cause(error: Exception) -> Exception:
    """The error that urllib3 wrapped: its text is for the log of attempts."""
    return next((part for part in error.args if isinstance(part, Exception)), error)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_DETAIL].strip()
