"""Rates that all processes keep together: a token bucket for each in Redis. While Redis does not answer, each process
keeps a bucket of its own for its share of the rate (docs/routes.md#limits)."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError, WatchError

from app.infrastructure.redis_client import CircuitBreaker
from app.infrastructure.sender_share import SenderShare

logger = logging.getLogger(__name__)

EXPIRE_AFTER = 86_400
"""Seconds after which the bucket of an idle sender is deleted."""
MAX_TRIES = 50
"""Maximum of attempts to reserve while other processes change the bucket."""
MAX_BUCKETS = 10_000


class Bucket(NamedTuple):
    """A token bucket, as times of one clock. Its fields are those of the hash in Redis."""

    upcoming: float = 0.0
    """When the bucket will be refilled to its level before the last message."""
    turn: float = 0.0
    """The last slot that was reserved for a postponed message."""


class Grant(NamedTuple):
    """How many messages may be sent at once; the others have a slot each, the first after `wait` seconds and the next
    ones every `step` seconds."""

    allowed: int
    wait: float
    step: float


def reserve(bucket: Bucket, rate: float, count: int, clock: float) -> tuple[Bucket, Grant]:
    """The bucket after `count` more messages, and how many of them may go at once; slots are reserved for the rest."""
    step, burst = 1 / rate, max(rate, 1.0)
    upcoming, turn, allowed = max(bucket.upcoming, clock), max(bucket.turn, clock), 0
    while allowed < count and upcoming - clock <= (burst - 1) * step:
        upcoming, allowed = upcoming + step, allowed + 1
    return Bucket(upcoming, turn + (count - allowed) * step), Grant(allowed, turn + step - clock, step)


def empty_bucket(rate: float, clock: float) -> Bucket:
    """A bucket whose first token comes after the time of one message."""
    return Bucket(clock + max(rate, 1.0) / rate, clock)


class SharedRates:
    """The rates, as one process keeps them."""

    def __init__(self, redis: Redis, breaker: CircuitBreaker, share: SenderShare) -> None:
        self._redis = redis
        self._breaker = breaker
        self._share = share
        self._buckets: dict[str, Bucket] = {}
        """Buckets for the time without Redis, by the monotonic clock."""
        self._lock = threading.Lock()

    def take(self, key: str, rate: float, count: int) -> Grant:
        """Takes `count` messages, at `rate` per second over all processes."""
        if not self._breaker.is_open:
            try:
                grant = reserve_in_redis(self._redis, key, rate, count)
            except RedisError as error:
                self._breaker.open()
                text = "each process keeps its share of %s: Redis does not answer"
                logger.warning(text, key, extra={"error": str(error)})
            else:
                self._buckets.pop(key, None)  # the next time without Redis begins empty again
                return grant
        return self._take_alone(key, self._share.rate(rate), count)

    def _take_alone(self, key: str, rate: float, count: int) -> Grant:
        clock = time.monotonic()
        with self._lock:
            if key not in self._buckets and len(self._buckets) >= MAX_BUCKETS:
                self._buckets.clear()
            bucket = self._buckets.get(key) or empty_bucket(rate, clock)
            self._buckets[key], grant = reserve(bucket, rate, count, clock)
        return grant


def reserve_in_redis(redis: Redis, key: str, rate: float, count: int) -> Grant:
    """Takes from the bucket that all processes share. Raises `RedisError`.

    Optimistic locking: a process whose bucket was changed by another one meanwhile reserves again.
    """
    with redis.pipeline() as commands:
        for _ in range(MAX_TRIES):
            with contextlib.suppress(WatchError):
                return _reserve_unless_changed(commands, key, rate, count)
    raise RedisError(f"{key} is changed all the time")


def _reserve_unless_changed(commands: Pipeline, key: str, rate: float, count: int) -> Grant:
    commands.watch(key)  # type: ignore[no-untyped-call]
    stored = cast("list[bytes | None]", commands.hmget(key, Bucket._fields))
    seconds, microseconds = commands.time()
    clock = seconds + microseconds / 1e6
    after, grant = reserve(Bucket(*(float(value or 0) for value in stored)), rate, count, clock)
    commands.multi()
    commands.hset(key, mapping={name: f"{value:.6f}" for name, value in after._asdict().items()})
    commands.expire(key, math.ceil(after.turn - clock) + EXPIRE_AFTER)
    commands.execute()
    return grant
