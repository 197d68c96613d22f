"""The rate limit: a counter per key and window in Redis, shared by all processes (docs/requests.md#rate-limit). A
session of the console counts as the key that has signed in; one without a key has a counter of its own.

The counter has the requests that processes have taken from the limit. A process takes a hundredth of a limit at a time,
and asks Redis again when that is used up; what it has not used at the end of the window is lost. So never more requests
are admitted than the limit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from app.clock import now
from app.services import Services
from app.settings import Rate, parse_rate

logger = logging.getLogger(__name__)

PORTIONS_PER_LIMIT = 100
"""How many portions a limit has, of which a process takes one at a time. Of a limit below twice that number, it takes
single requests."""
MAX_COUNTERS = 10_000
"""Counters of which a process keeps requests; beyond that number, it asks Redis anew for all."""

Counter = tuple[int | str, Rate]


@dataclass(frozen=True, slots=True)
class Allowance:
    """State of a key's limit in the current window; `reset` is in seconds."""

    limit: int
    remaining: int
    reset: int
    is_exceeded: bool


class Attempts(NamedTuple):
    """The attempts in the current window, which is over in `reset` seconds."""

    number: int
    reset: int


def rate_of(services: Services, account_rate: str | None) -> Rate | None:
    """The account's own rate, or the setting's."""
    return parse_rate(account_rate) if account_rate else services.settings.rate_limit


def count_request(
    services: Services, portions: Portions, whose: int | str, account_rate: str | None
) -> Allowance | None:
    """Counts one request of a key, by its id, or of another counter; `account_rate` is that of the account, if it has
    one, and `portions` are those of this process. None without a limit, or if Redis is unavailable: the service works
    without it."""
    rate = rate_of(services, account_rate)
    if rate is None or services.redis_breaker.is_open:
        return None
    moment = now().timestamp()
    window = int(moment // rate.seconds)
    try:
        used = portions.use(services.redis, (whose, rate), window)
    except RedisError as error:
        services.redis_breaker.open()
        logger.warning("the rate limit is not enforced: Redis does not answer", extra={"error": str(error)})
        return None
    reset = max(1, int((window + 1) * rate.seconds - moment + 0.999))
    return Allowance(rate.count, max(0, rate.count - used), reset, used > rate.count)


def count_attempt(services: Services, whose: str, seconds: int) -> Attempts | None:
    """Counts an attempt to sign in or to log in. None if Redis is unavailable: then there is no limit."""
    return _attempts(services, whose, seconds, lambda key: increment(services.redis, key, seconds))


def counted_attempts(services: Services, whose: str, seconds: int) -> Attempts | None:
    """The attempts that were counted, without counting another one. None if Redis is unavailable."""
    return _attempts(services, whose, seconds, lambda key: int(services.redis.get(key) or 0))


def _attempts(services: Services, whose: str, seconds: int, read: Callable[[str], int]) -> Attempts | None:
    if services.redis_breaker.is_open:
        return None
    moment = now().timestamp()
    window = int(moment // seconds)
    try:
        number = read(f"tms:{whose}:{window}")
    except RedisError as error:
        services.redis_breaker.open()
        logger.warning("attempts to sign in are not limited: Redis does not answer", extra={"error": str(error)})
        return None
    return Attempts(number, max(1, int((window + 1) * seconds - moment + 0.999)))


def increment(redis: Redis, key: str, seconds: int, number: int = 1) -> int:
    """Counts so many requests in the window: one command, and for the first a second one that expires the key with its
    window."""
    used = int(redis.incrby(key, number))
    if used == number:
        redis.expire(key, seconds + 1)
    return used


@dataclass(slots=True)
class Portion:
    """What a process knows of a limit in a window: how many requests all processes have taken, and how many of them
    this one has left."""

    window: int
    requests_taken: int = 0
    requests_left: int = 0

    def use(self) -> int:
        """Uses a request that is left; returns how many are used, as far as this process knows: the others may have
        some left."""
        self.requests_left -= 1
        return self.requests_taken - self.requests_left

    def add(self, taken: int, granted: int) -> int:
        """Adds requests that this process has got, so that so many are taken now, and uses one of them."""
        self.requests_taken = max(self.requests_taken, taken)
        self.requests_left += granted
        return self.use()


class Portions:
    """The portions of this process; threads share them."""

    def __init__(self) -> None:
        self._portions: dict[Counter, Portion] = {}
        self._lock = threading.Lock()

    def use(self, redis: Redis, counter: Counter, window: int) -> int:
        """Counts a request; returns how many are used with it, which are more than the limit for one beyond it. Raises
        `RedisError`."""
        with self._lock:
            portion = self._portions.get(counter)
            if portion is not None and portion.window == window and portion.requests_left:
                return portion.use()
        whose, rate = counter
        size = max(1, rate.count // PORTIONS_PER_LIMIT)
        taken = increment(redis, f"tms:rate:{whose}:{rate.seconds}:{window}", rate.seconds, size)
        granted = min(size, rate.count - taken + size)
        if granted <= 0:
            return taken
        with self._lock:
            return self._of(counter, window).add(min(taken, rate.count), granted)

    def _of(self, counter: Counter, window: int) -> Portion:
        """The portion of the window. Under the lock."""
        portion = self._portions.get(counter)
        if portion is None or portion.window != window:
            if len(self._portions) >= MAX_COUNTERS:
                self._portions.clear()
            portion = self._portions[counter] = Portion(window)
        return portion
