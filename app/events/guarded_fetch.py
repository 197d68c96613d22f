"""Fetching a small document over https through the SSRF guard, within a bounded time."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from urllib3.exceptions import HTTPError

from app.events.guarded_connection import ConnectionFailed, guarded_pool, read_target
from app.events.watchdog import Watchdog

CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 3.0
TOTAL_TIMEOUT = 6.0
"""Seconds for the whole exchange, whatever the server does."""
MAX_BYTES = 64 * 1024

_watchdog = Watchdog()


class FetchFailed(OSError):
    """There is no such document, or no answer; the text is for the log."""


class _Exchange:
    """The exchange that the watchdog ends."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._was_cut = False

    def begins(self, connected: Any) -> None:
        """Called with the connected socket before the request."""
        self._socket = connected
        if self._was_cut:
            raise ConnectionAbortedError("no time was left for the request")

    def cut(self) -> None:
        """Ends the exchange that another thread is waiting for."""
        self._was_cut = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def fetch(url: str, trust: ssl.SSLContext, *, allow_private: bool = False) -> bytes:
    """The document at the URL, of at most 64 KiB. No redirect is followed, and no address is reached that is not
    public. Raises `FetchFailed`."""
    exchange = _Exchange()
    try:
        target = read_target(url, allow_private=allow_private)
        pool = guarded_pool(
            target,
            trust,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            on_request=exchange.begins,
        )
        with contextlib.closing(pool), _watchdog.cut_after(exchange, TOTAL_TIMEOUT):
            response = pool.urlopen("GET", target.path, redirect=False, preload_content=False, decode_content=False)
            with contextlib.closing(response):
                body = response.read(MAX_BYTES + 1)
    except (ConnectionFailed, HTTPError, OSError, ValueError) as error:
        raise FetchFailed(f"{url}: {error}") from error
    if response.status != 200 or len(body) > MAX_BYTES:
        raise FetchFailed(f"{url}: status {response.status}, {len(body)} bytes")
    return body
