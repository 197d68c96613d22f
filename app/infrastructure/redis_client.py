"""Clients of Redis with a time limit on every wait."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from app.network.connections import connect

CONNECT_SECONDS = 2.0


class _Connection(Connection):
    """The library's connection, whose name lookup counts toward the timeout. The library sends keepalives: a Redis
    that vanishes without closing is noticed within 45 s, also by a worker that waits for a wake-up."""

    def _connect(self) -> socket.socket:
        connected = connect(self.host, self.port, self.socket_connect_timeout or CONNECT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.socket_keepalive:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in self.socket_keepalive_options.items():
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
        connected.settimeout(self.socket_timeout)
        return connected


class _TlsConnection(SSLConnection, _Connection):
    """The same over TLS: the library's class encrypts the socket of the class behind it."""


def connect_redis(url: str, *, wait: float = 5.0) -> Redis:
    """A client that retries once over a new connection: the library's own ten retries would delay a request for many
    seconds while Redis is down. A timeout is not retried: a Redis that hangs, or a network that drops packets, would
    time out again."""
    classes = {"redis": _Connection, "rediss": _TlsConnection}
    scheme = urlsplit(url).scheme
    return Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=wait,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        **({"connection_class": classes[scheme]} if scheme in classes else {}),
    )


# Circuit breaker for Redis: after a timeout no request uses it for a second.

SECONDS = 1.0


class CircuitBreaker:
    """One per process. Closes automatically after SECONDS."""

    def __init__(self) -> None:
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the server failed to answer within the last second."""
        return time.monotonic() < self._open_until

    def open(self) -> None:
        """Opens the circuit breaker: the server did not answer."""
        self._open_until = time.monotonic() + SECONDS

    def close(self) -> None:
        """Lets the next request use the server at once."""
        self._open_until = 0.0
