"""urllib3 connections to webhook receivers, opened only to addresses that the SSRF guard has checked.

The guard works at connection time: the host is resolved once, every address is checked, and the connection goes to one
of these addresses. Host header, SNI and certificate check stay those of the URL.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection

from app.events.ssrf_guard import ascii_host, check_addresses, split_url
from app.network.connections import connect_to_any, seconds_left
from app.network.lookup import look_up


@dataclass(frozen=True, slots=True)
class Target:
    """The URL of a webhook in the parts that a connection and a request need. `host` is in ASCII form."""

    tls: bool
    host: str
    port: int
    path: str
    allow_private: bool


class ConnectionFailed(Exception):
    """Name resolution, address check, TCP or TLS failed. No `OSError`, which urllib3 would wrap in an error with
    another text."""


class GuardedConnection(HTTPConnection):
    """Connects within `connect_timeout`; calls `on_request` with the connected socket before each request."""

    def __init__(
        self,
        *arguments: Any,
        target: Target,
        connect_timeout: float,
        on_request: Callable[[Any], None],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._target = target
        self._connect_timeout = connect_timeout
        self._on_request = on_request

    def _new_conn(self) -> socket.socket:
        """urllib3's hook for opening the TCP connection. The TLS handshake gets the rest of the timeout."""
        deadline = time.monotonic() + self._connect_timeout
        addresses = look_up(self._target.host, self._connect_timeout)
        if not self._target.allow_private:
            check_addresses(self._target.host, addresses)
        connected = connect_to_any(self._target.host, addresses, self._target.port, deadline)
        for option in self.socket_options or ():
            connected.setsockopt(*option)
        connected.settimeout(seconds_left(deadline))
        return connected

    def connect(self) -> None:
        """Raises `ConnectionFailed`."""
        try:
            super().connect()
        except (OSError, ValueError) as error:
            raise ConnectionFailed(str(error) or type(error).__name__) from error

    def request(self, *arguments: Any, **options: Any) -> None:
        """Connects first if necessary, so that the time of connecting does not count as time of the request."""
        if self.is_closed:
            self.connect()
        self._on_request(self.sock)
        super().request(*arguments, **options)


class GuardedTlsConnection(GuardedConnection, HTTPSConnection):
    """The same over TLS."""


class GuardedPool(HTTPConnectionPool):
    """Keeps guarded connections."""

    ConnectionCls = GuardedConnection


class GuardedTlsPool(HTTPSConnectionPool):
    """Keeps guarded connections over TLS."""

    ConnectionCls = GuardedTlsConnection


def guarded_pool(
    target: Target,
    trust: ssl.SSLContext,
    *,
    connect_timeout: float,
    read_timeout: float,
    on_request: Callable[[Any], None],
) -> HTTPConnectionPool:
    """A pool that keeps one connection to the target. It never retries: the caller decides what is sent again."""
    options: dict[str, Any] = {
        "timeout": read_timeout,
        "maxsize": 1,
        "retries": Retry(False, redirect=False),
        "target": target,
        "connect_timeout": connect_timeout,
        "on_request": on_request,
    }
    if target.tls:
        return GuardedTlsPool(target.host, target.port, ssl_context=trust, **options)
    return GuardedPool(target.host, target.port, **options)


def trusted_roots() -> ssl.SSLContext:
    """The certificate authorities of the machine, or those that come with the service if it has none."""
    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


def read_target(url: str, *, allow_private: bool) -> Target:
    """The parts of the URL. Raises `ForbiddenAddress` for a URL that is not allowed (any more)."""
    parts = split_url(url, allow_private=allow_private)
    tls = parts.scheme == "https"
    port = parts.port or (http.client.HTTPS_PORT if tls else http.client.HTTP_PORT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(tls, ascii_host(parts), port, path, allow_private)
