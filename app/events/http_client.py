"""Posting to webhooks: somebody else's servers, which may be slow, broken or hostile.

A request follows no redirect, uses no proxy of the environment, verifies TLS, and ends in a bounded time whatever the
other side does: a watchdog cuts the connection of a receiver that trickles bytes. The connection of a webhook is kept
for its next batch.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.clock import now
from app.events.connection import Connection, Target, read_target, trusted_roots
from app.events.watchdog import Watchdog

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
REST_TIMEOUT = 5.0
"""For the rest of an answer whose status is known already."""
MOST_READ = 64 * 1024
MOST_KEPT = 100
LONGEST_DETAIL = 200
CLOSED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request. `status` is None where there was no response; `detail` then says why.

    `began` is the moment at which the request went out, or at which it was to go out when that failed.
    """

    status: int | None
    detail: str
    began: datetime
    ended: datetime = field(default_factory=now)


class StaleConnection(Exception):
    """A kept connection that the other side closed at the moment of its next use."""


class WebhookClient:
    """The connections of one process to all webhooks. Its methods may be called from several threads."""

    def __init__(
        self,
        trust: ssl.SSLContext | None = None,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self._trust = trust or trusted_roots()
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._lock = threading.Lock()
        self._watchdog = Watchdog()
        self._idle: OrderedDict[int, Connection] = OrderedDict()
        self._busy: set[Connection] = set()

    def post(
        self, webhook_id: int, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool
    ) -> Answer:
        """Posts the body. Never raises for anything that the URL, the network or the receiver does."""
        try:
            target = read_target(url, allow_private=allow_private)
        except ValueError as error:
            return Answer(None, str(error), now())
        kept = self._take_kept(webhook_id, target)
        if kept is not None:
            # Its end says nothing about the batch, so this is no failed try.
            with contextlib.suppress(StaleConnection):
                return self._exchange(webhook_id, kept, body, headers)
        fresh = Connection(target, self._trust, self._connect_timeout, self._read_timeout)
        return self._exchange(webhook_id, fresh, body, headers)

    def abort(self) -> None:
        """Ends the requests that are in flight, for a process that has to stop."""
        with self._lock:
            busy = list(self._busy)
        for connection in busy:
            connection.cut()

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            while self._idle:
                self._idle.popitem()[1].close()

    def _exchange(self, webhook_id: int, connection: Connection, body: bytes, headers: Mapping[str, str]) -> Answer:
        with self._lock:
            self._busy.add(connection)
        kept = connection.sock is not None
        reusable = False
        began = now()
        try:
            if not kept:
                connection.connect()
                began = now()
            with self._response(connection, body, headers) as response:
                detail, reusable = self._rest(connection, response)
            return Answer(response.status, detail, began)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if kept and isinstance(error, CLOSED):
                raise StaleConnection from None
            return Answer(None, _shortened(str(error) or type(error).__name__), began)
        finally:
            self._put_back(webhook_id, connection, keep=reusable)

    def _response(self, connection: Connection, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        with self._watchdog.cut_after(connection, self._read_timeout):
            # A receiver may answer and close before it has read all of the body: then its answer counts.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", connection.target.path, body, dict(headers))
            try:
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                if connection.was_cut or isinstance(error, TimeoutError):
                    raise TimeoutError(f"no answer in {self._read_timeout:g} s") from None
                raise
        if connection.was_cut:  # the end of the stream then passes for the end of the headers
            raise TimeoutError(f"no answer in {self._read_timeout:g} s")
        return response

    def _rest(self, connection: Connection, response: http.client.HTTPResponse) -> tuple[str, bool]:
        """The beginning of the body for the log, and whether the connection can serve again.

        The status stands already, so nothing that goes wrong here counts.
        """
        if response.isclosed():  # there is no body
            return "", not response.will_close
        try:
            with self._watchdog.cut_after(connection, REST_TIMEOUT):
                body = response.read(MOST_READ)
        except (OSError, http.client.HTTPException):
            return "", False
        detail = _shortened(body[: 4 * LONGEST_DETAIL].decode("utf-8", "replace"))
        return detail, response.isclosed() and not response.will_close

    def _take_kept(self, webhook_id: int, target: Target) -> Connection | None:
        with self._lock:
            connection = self._idle.pop(webhook_id, None)
        if connection is None:
            return None
        if connection.target != target or connection.is_stale():
            connection.close()
            return None
        return connection

    def _put_back(self, webhook_id: int, connection: Connection, *, keep: bool) -> None:
        surplus: list[Connection] = [] if keep else [connection]
        with self._lock:
            self._busy.discard(connection)
            if keep:
                self._idle[webhook_id] = connection
            while len(self._idle) > MOST_KEPT:
                surplus.append(self._idle.popitem(last=False)[1])
        for one in surplus:
            one.close()


def _shortened(text: str) -> str:
    """One line fit for the log of attempts."""
    return "".join(c if c.isprintable() else " " for c in text)[:LONGEST_DETAIL].strip()
