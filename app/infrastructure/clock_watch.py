"""What a process does about a clock that differs from the database's (docs/crash-safety.md#clocks).

Leases and due times are written by one host and judged by another, so all go by one time.
"""

from __future__ import annotations

import logging

from app.clock import followed_clock
from app.db.clock_difference import Difference, difference_from
from app.db.database import Database

NOTICED = 2.0
"""Seconds from which on a difference is said."""
WRONG = 20.0
"""Seconds from which on a process does not start, and one that runs goes by the database's time."""
AGREED = 1.0
"""Seconds below which the clocks agree again: a difference near a limit is said once."""

logger = logging.getLogger(__name__)


class WrongClock(Exception):
    """The clock of this machine is too far off; the text is one line for the operator."""


def check_clock(database: Database) -> None:
    """Raises `WrongClock` for a difference with which no process may start, and `SQLAlchemyError`."""
    difference = difference_from(database)
    if difference is not None and abs(difference.seconds) >= WRONG:
        raise WrongClock(f"{difference}: set the one that is wrong, by NTP for example")


class ClockWatch:
    """The comparisons of a process that runs: it says when its clock begins to differ and when it agrees again, and
    goes by the database's time meanwhile if it must."""

    def __init__(self) -> None:
        self._limit = 0.0
        """The highest limit that the difference has reached since the clocks last agreed."""

    def note(self, difference: Difference) -> None:
        """Called with each comparison."""
        seconds, before = abs(difference.seconds), self._limit
        reached = max((limit for limit in (NOTICED, WRONG) if seconds >= limit), default=0.0)
        self._limit = 0.0 if seconds < AGREED else max(before, reached)
        if self._limit == WRONG:
            followed_clock.follow(difference.database_time)
        if self._limit == before:
            return
        if self._limit == WRONG:
            logger.error("%s: this process goes by the database's time until the two agree", difference)
        elif self._limit == NOTICED:
            logger.warning("%s", difference)
        else:
            followed_clock.leave()
            logger.info("this host's clock agrees with that of the database again")
