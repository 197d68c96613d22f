"""Time: the current moment, time zones, and the timestamp formats of the API (docs/requests.md#timestamps)."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

DATE_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
HOUR_FORM = r"(?:[01][0-9]|2[0-3])"
SIXTY_FORM = r"[0-5][0-9]"
"""Minutes and seconds, also of an offset: Python itself reads an offset of +1060 as +1100."""
OFFSET_FORM = rf"{HOUR_FORM}:?{SIXTY_FORM}"
"""What follows the sign."""
INSTANT = re.compile(rf"{DATE_FORM}T{HOUR_FORM}:{SIXTY_FORM}:{SIXTY_FORM}(?:\.[0-9]{{1,9}})?(?:Z|[+-]{OFFSET_FORM})")
"""A time with an offset."""


class FollowedClock:
    """A clock that the process goes by instead of its machine's (app/infrastructure/clock_watch.py)."""

    start: datetime | None = None
    """What it showed when the monotonic clock was 0; None while the machine's is right."""

    def follow(self, moment: datetime) -> None:
        """That clock shows this moment now. The monotonic clock tells how it goes on: the machine's may be set."""
        self.start = moment - timedelta(seconds=time.monotonic())

    def leave(self) -> None:
        """The machine's clock is right again."""
        self.start = None


followed_clock = FollowedClock()


def now() -> datetime:
    """The current moment in UTC, with microseconds: for due times and leases."""
    start = followed_clock.start
    return datetime.now(UTC) if start is None else start + timedelta(seconds=time.monotonic())


def machine_time() -> datetime:
    """What the machine's clock shows, in UTC, whether it is right or not."""
    return datetime.now(UTC)


def this_second() -> datetime:
    """The current moment truncated to the second: for every time that a client can see."""
    return now().replace(microsecond=0)


def seconds_from_now(seconds: float) -> datetime:
    return now() + timedelta(seconds=seconds)


_UPTIME_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a monotonic clock that also counts while the machine is suspended; elsewhere the usual one does."""


def uptime() -> float:
    """Seconds by a clock that nobody sets and that counts while the machine is suspended: for leases, which end
    meanwhile."""
    return time.clock_gettime(_UPTIME_CLOCK)


def seconds_to_next_month(moment: datetime) -> float:
    """Until the next month begins in UTC."""
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return ((first + timedelta(days=32)).replace(day=1) - moment).total_seconds()


@lru_cache(maxsize=256)
def timestamp(moment: datetime, zone: ZoneInfo | None = None) -> str:
    """`YYYY-MM-DDTHH:MM:SSZ`, or with a `+1000`-style offset in the given zone. The events of a bulk request or of a
    batch of outcomes all have the same one."""
    if zone is None:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S%z")


def find_zone(name: str) -> ZoneInfo | None:
    """The IANA time zone of exactly that name; None if there is none."""
    # Checked first, because ZoneInfo treats its argument as a path.
    return ZoneInfo(name) if name in _zone_names() else None


@cache
def zone_of_account(name: str) -> ZoneInfo | None:
    """The zone for `timestamp`: None for UTC under any of its names. An unknown zone counts as UTC: sending the mail
    matters more than the zone of its times."""
    zone = find_zone(name)
    return None if zone is None or datetime.fromtimestamp(0, zone).tzname() == "UTC" else zone


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("ascii").split())
