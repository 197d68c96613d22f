"""How soon single messages leave while much else is due: for the cases that judge one account by the load of
another."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from bench.contacts import Shop
from bench.load import fetch
from bench.mail import Sink, send_request
from bench.processes import CaseFailure, wait_for
from bench.sink import WATCHED
from bench.stack import Server
from bench.turns import Goal, Row, percentile

MAX_SECONDS = 2.0
"""Seconds within which 95 of 100 messages must leave."""
DEADLINE = 120.0
"""Seconds after which a message that has not left counts as lost."""

_numbers = itertools.count(WATCHED)


def times_to_leave(server: Server, target: Sink, shop: Shop, count: int, priority: str = "normal") -> list[float]:
    """Sends messages to one recipient each, one after the other; returns the seconds from the 202 to the DATA of
    each."""
    return [time_to_leave(server, target, shop, priority) for _ in range(count)]


def time_to_leave(server: Server, target: Sink, shop: Shop, priority: str = "normal", *, rest: float = 0) -> float:
    """Sends a message to one recipient; returns the seconds from the 202 to the DATA. After the 202 nothing is asked
    for so many seconds: polling would take processor time from what is measured."""
    number = next(_numbers)
    status, body = fetch(server.port, send_request(shop, range(number, number + 1), priority=priority))
    accepted = time.monotonic()
    if status != 202:
        raise CaseFailure(f"status {status}: {body[:500]!r}")
    time.sleep(rest)
    wait_for(lambda: target.time_of(number) > 0, "the message leaves", DEADLINE)
    return max(target.time_of(number) - accepted, 0.0)


def row(name: str, times: Sequence[float]) -> Row:
    """The 95th percentile in milliseconds, with the median and the maximum beside it."""
    detail = f"p50 {percentile(times, 0.5) * 1000:.0f}, most {max(times) * 1000:.0f}"
    return Row(name, "ms", percentile(times, 0.95) * 1000, detail=detail, goal=Goal(most=MAX_SECONDS * 1000))
