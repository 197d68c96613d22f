"""How soon single messages leave while much else is due: for the cases that judge one account by another's load."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from bench.contacts import Shop
from bench.load import fetch
from bench.mail import Sink, send_request
from bench.processes import Failed, wait_for
from bench.sink import WATCHED
from bench.stack import Server
from bench.turns import Row, percentile

MOST = 2.0
"""Seconds, for 95 of 100."""
PATIENCE = 120.0
"""Seconds until a message that does not leave counts as lost."""

_numbers = itertools.count(WATCHED)


def times_to_leave(server: Server, target: Sink, shop: Shop, count: int, priority: str = "normal") -> list[float]:
    """Sends messages to one recipient each, one after the other: seconds from the answer to the request until the
    content begins to arrive."""
    return [_time_to_leave(server, target, shop, next(_numbers), priority) for _ in range(count)]


def _time_to_leave(server: Server, target: Sink, shop: Shop, number: int, priority: str) -> float:
    status, body = fetch(server.port, send_request(shop, range(number, number + 1), priority=priority))
    accepted = time.monotonic()
    if status != 202:
        raise Failed(f"status {status}: {body[:500]!r}")
    wait_for(lambda: target.time_of(number) > 0, "the message leaves", PATIENCE)
    return max(target.time_of(number) - accepted, 0.0)


def row(name: str, times: Sequence[float]) -> Row:
    """The time that 95 of 100 need, in milliseconds, with the median and the longest."""
    value = percentile(times, 0.95)
    beside = f"p50 {percentile(times, 0.5) * 1000:.0f}, most {max(times) * 1000:.0f}"
    return Row(
        name,
        "ms",
        f"{value * 1000:.0f} ({beside})",
        goals=f"at most {MOST * 1000:.0f} ms",
        reached=value <= MOST,
    )
