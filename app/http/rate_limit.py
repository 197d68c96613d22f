"""The rate limit: a counter per key and window in Redis, shared by all processes (docs/requests.md#rate-limit). A
session of the console counts as the key that has signed in; one without a key has a counter of its own."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from app.services import Services
from app.settings import Rate, parse_rate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Allowance:
    """State of a key's limit in the current window; `reset` is in seconds."""

    limit: int
    remaining: int
    reset: int
    exceeded: bool


def rate_of(services: Services, own: str | None) -> Rate | None:
    """The account's own rate, or the setting's."""
    return parse_rate(own) if own else services.settings.rate_limit


def count_request(services: Services, whose: int | str, own: str | None) -> Allowance | None:
    """Counts one request of a key, by its id, or of another counter; `own` is the rate of the account, if it has one.
    None without a limit, or if Redis is unavailable: the service works without it."""
    rate = rate_of(services, own)
    if rate is None or services.redis_breaker.is_open:
        return None
    now = time.time()
    window = int(now // rate.seconds)
    key = f"tms:rate:{whose}:{rate.seconds}:{window}"
    try:
        used = increment(services.redis, key, rate.seconds)
    except RedisError as error:
        services.redis_breaker.open()
        logger.warning("the rate limit is not applied: Redis does not answer", extra={"error": str(error)})
        return None
    reset = max(1, int((window + 1) * rate.seconds - now + 0.999))
    return Allowance(rate.count, max(0, rate.count - used), reset, used > rate.count)


def increment(redis: Redis, key: str, seconds: int) -> int:
    """Counts a request in the window: one command, and for the first a second one that expires the key with its
    window."""
    used = int(redis.incr(key))
    if used == 1:
        redis.expire(key, seconds + 1)
    return used
