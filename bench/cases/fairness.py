"""Case H: how soon does an account's message leave while another one has 100,000 due recipients?"""

from __future__ import annotations

import contextlib

from bench.contacts import open_shop
from bench.leaving import row, times_to_leave
from bench.mail import accept, sink
from bench.options import Options
from bench.processes import CaseFailure, wait_for
from bench.stack import api, send_workers, stack
from bench.turns import Row


def run(options: Options) -> list[Row]:
    """The row of H, in milliseconds."""
    backlog, singles = options.amount(100_000, 3_000), options.amount(60, 5)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        big, small = open_shop(parts, "Big"), open_shop(parts, "Small")
        server = kept.enter_context(api(parts))
        accept(server, big, 0, backlog, 100)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the first mail of the backlog arrives")
        times = times_to_leave(server, target, small, singles)
        left = backlog + singles - target.count()["mails"]
        if not (left or options.short):
            raise CaseFailure("the backlog ended before the other account's last message")
        wait_for(lambda: target.count()["mails"] >= backlog + singles, "all is sent", 300, pause=0.1)
        target.check(backlog + singles)
    return [row("H. another's message, p95", times)]
