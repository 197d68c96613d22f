"""Time: the present moment and the timestamp forms of the specification (specification: General conventions, 7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo


def now() -> datetime:
    """The present moment, aware, in UTC, with microseconds: for due times and leases."""
    return datetime.now(UTC)


def this_second() -> datetime:
    """The present moment cut to the second: for every time that a client can see (decisions: 11, Query)."""
    return now().replace(microsecond=0)


def seconds_from_now(seconds: float) -> datetime:
    """The moment that many seconds ahead."""
    return now() + timedelta(seconds=seconds)


def timestamp(moment: datetime, zone: ZoneInfo | None = None) -> str:
    """`YYYY-MM-DDTHH:MM:SSZ`, or with a `+1000`-style offset in the given zone (decisions: 4)."""
    if zone is None:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S%z")
