"""The rate limit: a counter per key and window in Redis, shared by all processes (docs/requests.md#rate-limit)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from app.accounts.auth import Principal
from app.services import Services
from app.settings import Rate, parse_rate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left to a key in the present window; `reset` is in seconds."""

    limit: int
    remaining: int
    reset: int
    exceeded: bool


def rate_of(services: Services, principal: Principal) -> Rate | None:
    """The account's own rate, or the setting's."""
    return parse_rate(principal.rate_limit) if principal.rate_limit else services.settings.rate_limit


def take(services: Services, principal: Principal) -> Allowance | None:
    """Counts one request. None when there is no limit, or when Redis cannot tell: the API goes on without it."""
    rate = rate_of(services, principal)
    if rate is None or services.redis_breaker.is_open:
        return None
    now = time.time()
    window = int(now // rate.seconds)
    key = f"tms:rate:{principal.key_id}:{rate.seconds}:{window}"
    try:
        used = _count(services.redis, key, rate.seconds)
    except RedisError as error:
        services.redis_breaker.open()
        logger.warning("the rate limit is not applied: Redis does not answer", extra={"error": str(error)})
        return None
    reset = max(1, int((window + 1) * rate.seconds - now + 0.999))
    return Allowance(rate.count, max(0, rate.count - used), reset, used > rate.count)


def _count(redis: Redis, key: str, seconds: int) -> int:
    """One more request in the window: one command for all but the first, which has the key end with its window."""
    used = int(redis.incr(key))
    if used == 1:
        redis.expire(key, seconds + 1)
    return used
