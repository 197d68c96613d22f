"""Clients of Redis with a time limit on every wait, and the wake-ups in its queues."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection
from rq import Queue
from rq.serializers import JSONSerializer

from app.infrastructure.metrics import WAKE_UPS
from app.network.connections import connect
from app.redis_urls import SENTINEL_SCHEME, SentinelUrl

CONNECT_SECONDS = 2.0
_Sentinel: Any = Sentinel
"""The library does not say its types."""
SENTINEL_SECONDS = 0.5
"""Seconds for connecting to a Sentinel, and for its answer."""


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
    """A connection over TLS: the library's class encrypts the socket of the class behind it."""


class _MasterConnection(SentinelManagedConnection, _Connection):
    """A connection to the server that the Sentinels name as the master when it is opened. Once that server says that it
    is no longer the master, the next use asks them again."""


def connect_redis(url: str, *, wait: float = 5.0) -> Redis:
    """A client that retries once over a new connection: the library's own ten retries would delay a request for many
    seconds while Redis is down. A timeout is not retried: a Redis that hangs, or a network that drops packets, would
    time out again."""
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": wait,
        "health_check_interval": 30,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }
    if url.startswith(SENTINEL_SCHEME):
        return _connect_to_master(SentinelUrl.parse(url), options)
    classes = {"redis": _Connection, "rediss": _TlsConnection}
    scheme = urlsplit(url).scheme
    return Redis.from_url(url, **options, **({"connection_class": classes[scheme]} if scheme in classes else {}))


def _connect_to_master(url: SentinelUrl, options: Mapping[str, Any]) -> Redis:
    """A client of the master. Sentinels are asked one after the other, each for a short time: most of them may be
    away."""
    patience = {"socket_connect_timeout": SENTINEL_SECONDS, "socket_timeout": SENTINEL_SECONDS}
    asking = {**patience, "retry": Retry(NoBackoff(), 0)}
    sentinel = _Sentinel(url.sentinels, sentinel_kwargs=asking)
    for client in sentinel.sentinels:
        client.connection_pool.connection_class = _Connection
    credentials = {"db": url.database, "username": url.username, "password": url.password}
    master: Redis = sentinel.master_for(url.service, connection_class=_MasterConnection, **credentials, **options)
    return master


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


# Wake-ups are the only jobs in the Redis queues. The tables send_queue, events and automation_runs are the queues; a
# job has no content and only makes a worker check its tables. So a job may be lost (a sweep checks every half second,
# app/maintenance/sweeps.py) or duplicated (the second check finds nothing) without harm, and a thousand accepted sends
# need one job. Inside `app` only this module uses RQ.

SENDS = "sends"
WEBHOOKS = "webhooks"
MAINTENANCE = "maintenance"
AUTOMATIONS = "automations"

JOBS = {
    SENDS: "jobs.sends.drain",
    WEBHOOKS: "jobs.webhooks.dispatch",
    MAINTENANCE: "jobs.maintenance.clean",
    AUTOMATIONS: "jobs.automations.advance",
}
"""The function that a worker runs. Names, not functions: `app` does not import `jobs`."""

NO_TIME_LIMIT = -1
"""A job ends by itself after its time slice; a time limit could interrupt a send between transmission and record."""


class WakeUps:
    """Wakes the workers of a queue."""

    def __init__(self, redis: Redis, breaker: CircuitBreaker | None = None) -> None:
        self._queues = {name: Queue(name, connection=redis, serializer=JSONSerializer) for name in JOBS}
        self._breaker = breaker or CircuitBreaker()

    def wake(self, queue: str) -> bool:
        """Makes a worker check its tables; call it after the commit. Returns whether a wake-up waits now.

        Adds nothing while a wake-up waits in the queue: the worker that takes it checks later than now, so it sees
        everything committed now. A wake-up that a worker has taken does not count: that worker may have checked
        already. Never raises: without Redis the sweeps find the work, and the circuit breaker stays open for a second,
        so that a request does not wait for a server that is down.
        """
        if self._breaker.is_open:
            WAKE_UPS.labels(queue, "failed").inc()
            return False
        try:
            is_added = self._add_unless_waiting(self._queues[queue], JOBS[queue])
            WAKE_UPS.labels(queue, "added" if is_added else "waiting").inc()
        except RedisError as error:
            self._breaker.open()
            WAKE_UPS.labels(queue, "failed").inc()
            logging.getLogger(__name__).warning("no wake-up for %s, a sweep will find the work: %s", queue, error)
            return False
        return True

    @staticmethod
    def _add_unless_waiting(queue: Queue, function: str) -> bool:
        if queue.count:
            return False
        queue.enqueue_call(function, timeout=NO_TIME_LIMIT)
        return True
