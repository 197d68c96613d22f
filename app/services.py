"""What a process works with, made once and passed to the use cases: settings, database, Redis, wake-ups."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from app.db.database import Database
from app.infrastructure.circuit_breaker import CircuitBreaker
from app.infrastructure.queueing import WakeUps
from app.settings import Settings

WAIT = 2.0
"""Seconds that a request waits for Redis, once: it can do without."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one process. `stopping` is set when the process has been asked to end: long work looks at it."""

    settings: Settings
    database: Database
    redis: Redis
    wake_ups: WakeUps
    redis_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    stopping: threading.Event = field(default_factory=threading.Event)


def make_services(settings: Settings) -> Services:
    """Nothing is connected yet: connections open when they are first used, also after a fork."""
    redis, breaker = connect_redis(settings.redis_url, wait=WAIT), CircuitBreaker()
    return Services(
        settings=settings,
        database=Database(settings.database_url, pool_size=settings.database_pool),
        redis=redis,
        wake_ups=WakeUps(redis, breaker),
        redis_breaker=breaker,
    )


def connect_redis(url: str, *, wait: float = 5.0) -> Redis:
    """A client that tries once more over a fresh connection, and no longer: the library's own ten tries would hold a
    request for many seconds while Redis is away. Who has waited for an answer in vain does not wait again: a Redis
    that hangs, or a network that swallows, would swallow the second try, too."""
    return Redis.from_url(
        url,
        socket_connect_timeout=2,
        socket_timeout=wait,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
