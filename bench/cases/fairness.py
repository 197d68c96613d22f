"""Case H: one account has 100,000 due recipients; how soon does another account's message leave?"""

from __future__ import annotations

import contextlib
import time

from bench.contacts import open_shop
from bench.load import fetch
from bench.mail import accept, send_request, sink
from bench.options import Options
from bench.processes import Failed, wait_for
from bench.sink import WATCHED
from bench.stack import api, send_workers, stack
from bench.turns import Row, percentile

MOST = 2.0
"""Seconds, for 95 of 100."""


def run(options: Options) -> list[Row]:
    """The row of H, in milliseconds."""
    backlog, singles = options.amount(100_000, 3_000), options.amount(60, 5)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        big, small = open_shop(parts, "Big"), open_shop(parts, "Small")
        server = kept.enter_context(api(parts))
        accept(server, big, 0, backlog, 100)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the backlog is on its way")
        times = []
        for number in range(WATCHED, WATCHED + singles):
            status, body = fetch(server.port, send_request(small, range(number, number + 1)))
            accepted = time.monotonic()
            if status != 202:
                raise Failed(f"status {status}: {body[:500]!r}")
            wait_for(lambda number=number: target.time_of(number) > 0, "the message leaves")  # type: ignore[misc]
            times.append(max(target.time_of(number) - accepted, 0.0))
        left = backlog + singles - target.count()["mails"]
        if not (left or options.short):
            raise Failed("the backlog ended before the last of the other's messages")
        wait_for(lambda: target.count()["mails"] >= backlog + singles, "all is sent", 300, pause=0.1)
        target.check(backlog + singles)
    value = percentile(times, 0.95)
    return [
        Row(
            "H. another's message, p95",
            "ms",
            f"{value * 1000:.0f}",
            goals=f"at most {MOST * 1000:.0f} ms",
            reached=value <= MOST,
        )
    ]
