"""When a request is tried again, and after how long.

Every request of this library can be repeated: a POST carries an idempotency key, and the others have the same effect
twice as once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep

from transactional_messaging.transport import Answer

PASSING = frozenset({429, 502, 503, 504})
"""Statuses of a request that may succeed later."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 8.0
SPREAD = 0.25
"""Further seconds, at most, after those of `Retry-After`: clients that were refused together do not return together."""


@dataclass(frozen=True)
class Retries:
    """`most` further tries of a request. The service says with `Retry-After` how long to wait; if that is more than
    `longest_wait` seconds, the error is raised at once. `Retries(0)` tries nothing again."""

    most: int = 3
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = sleep

    def delay(self, tries: int, answer: Answer | None) -> float | None:
        """Seconds to wait after so many tries of which the last got this answer, or none; None to give up."""
        if tries > self.most:
            return None
        own = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(tries - 1, 10)) * random.uniform(0.5, 1)  # noqa: S311
        if answer is None:
            return own
        asked = answer.retry_after
        in_progress = answer.status == 409 and asked is not None
        if answer.status not in PASSING and not in_progress:
            return None
        if asked is None:
            return own
        return asked + random.uniform(0, SPREAD) if asked <= self.longest_wait else None  # noqa: S311
