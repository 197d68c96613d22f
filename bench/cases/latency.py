"""Case G: the time from the acceptance of a send to its DATA, while nothing else is going on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial

from redis import Redis
from rq import Queue

from bench.contacts import open_shop
from bench.floors.start import QUEUE, TIMES, note
from bench.leaving import time_to_leave
from bench.mail import sink
from bench.options import Options
from bench.processes import running, wait_for
from bench.stack import Stack, api, send_workers, stack
from bench.turns import Goal, Ratio, Row, percentile

PERCENTILES = {"p50": (0.50, 2.0), "p99": (0.99, 5.0)}
"""Name -> the share of the times, and how many times the floor's it may be."""

REST = 0.15
"""Seconds after which the outcome is nearly always written, and the worker waits for work again."""

Once = Callable[[], float]


def run(options: Options) -> list[Row]:
    """The rows of G, in milliseconds."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        ours = partial(time_to_leave, server, target, shop, rest=REST)
        ours()
        floor = kept.enter_context(_floor(parts)) if options.postgresql else None
        ours_times: list[float] = []
        floor_times: list[float] = []
        for _ in range(options.rounds):
            count = options.amount(60, 5)
            ours_times += [ours() for _ in range(count)]
            floor_times += [floor() for _ in range(count)] if floor else []
        return [_row(name, ours_times, floor_times) for name in PERCENTILES]


@contextlib.contextmanager
def _floor(parts: Stack) -> Iterator[Once]:
    url = parts.services.settings.redis_url
    connection: Redis = parts.services.redis
    queue = Queue(QUEUE, connection=connection)

    def once() -> float:
        connection.delete(TIMES)
        queue.enqueue(note)
        enqueued = time.monotonic()
        time.sleep(REST)
        wait_for(lambda: connection.llen(TIMES) > 0, "the job has started")
        return max(float(connection.lrange(TIMES, 0, 0)[0]) - enqueued, 0.0)

    with running("rq", ["-m", "bench.floors.start", url], {}, parts.folder):
        once()
        yield once


def _row(name: str, ours: list[float], floor: list[float]) -> Row:
    share, most = PERCENTILES[name]
    case, our_milliseconds = f"G. latency when idle, {name}", percentile(ours, share) * 1000
    if not floor:
        return Row(case, "ms", our_milliseconds)
    bare = percentile(floor, share) * 1000
    ratio = Ratio.over([our_milliseconds / max(bare, 1e-3)])
    return Row(case, "ms", our_milliseconds, bare, floor_ratio=ratio, goal=Goal(max_floor_ratio=most))
