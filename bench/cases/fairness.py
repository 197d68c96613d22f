"""Case H: how soon does an account's message leave while another one has much to send, or the worst that is accepted?

H1: another account has 100,000 due recipients. H2: another account sends what takes longest to make, without end.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

from bench.contacts import Shop, open_shop
from bench.hostile import hostile_requests
from bench.load import fetch, rate
from bench.mail import Sink, accept, send_request, sink
from bench.options import Options
from bench.processes import Failed, wait_for
from bench.sink import WATCHED
from bench.stack import Server, api, send_workers, stack
from bench.turns import Row, percentile

MOST = 2.0
"""Seconds, for 95 of 100."""


def run(options: Options) -> list[Row]:
    """The rows of H, in milliseconds."""
    return [*_beside_a_backlog(options), *_beside_the_worst(options)]


def _beside_a_backlog(options: Options) -> list[Row]:
    backlog, singles = options.amount(100_000, 3_000), options.amount(60, 5)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        big, small = open_shop(parts, "Big"), open_shop(parts, "Small")
        server = kept.enter_context(api(parts))
        accept(server, big, 0, backlog, 100)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the backlog is on its way")
        times = _times(server, target, small, singles)
        left = backlog + singles - target.count()["mails"]
        if not (left or options.short):
            raise Failed("the backlog ended before the last of the other's messages")
        wait_for(lambda: target.count()["mails"] >= backlog + singles, "all is sent", 300, pause=0.1)
        target.check(backlog + singles)
    return [_row("H. another's message, p95", times)]


def _beside_the_worst(options: Options) -> list[Row]:
    singles = options.amount(60, 5)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        hostile, small = open_shop(parts, "Hostile"), open_shop(parts, "Small")
        server = kept.enter_context(api(parts))
        rate(server.port, hostile_requests(hostile), lambda status, _: status == 202, clients=2)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the worst is on its way", 60)
        kept.enter_context(_sent_without_end(server, hostile))
        times = _times(server, target, small, singles)
        if target.count()["wrong"]:
            raise Failed(f"wrong mails: {target.count()}")
    return [_row("H. beside the worst content, p95", times)]


@contextlib.contextmanager
def _sent_without_end(server: Server, shop: Shop) -> Iterator[None]:
    """One client sends the worst, one request after the other, until the block ends."""
    over = threading.Event()
    requests = itertools.takewhile(lambda _: not over.is_set(), itertools.cycle(hostile_requests(shop)))
    client = threading.Thread(target=rate, args=(server.port, requests, lambda status, _: status == 202, 1))
    client.start()
    try:
        yield
    finally:
        over.set()
        client.join()


def _times(server: Server, target: Sink, shop: Shop, count: int) -> list[float]:
    """Seconds from the answer to the request for a message until its content begins to arrive."""
    times = []
    for number in range(WATCHED, WATCHED + count):
        status, body = fetch(server.port, send_request(shop, range(number, number + 1)))
        accepted = time.monotonic()
        if status != 202:
            raise Failed(f"status {status}: {body[:500]!r}")
        wait_for(lambda number=number: target.time_of(number) > 0, "the message leaves")  # type: ignore[misc]
        times.append(max(target.time_of(number) - accepted, 0.0))
    return times


def _row(name: str, times: list[float]) -> Row:
    value = percentile(times, 0.95)
    return Row(name, "ms", f"{value * 1000:.0f}", goals=f"at most {MOST * 1000:.0f} ms", reached=value <= MOST)
