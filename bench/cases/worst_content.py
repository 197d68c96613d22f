"""Case O: how soon does an account's message leave while another one keeps sending the most expensive content?"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

from bench.contacts import Shop, open_shop
from bench.hostile import hostile_requests
from bench.leaving import row, times_to_leave
from bench.load import rate
from bench.mail import sink
from bench.options import Options
from bench.processes import CaseFailure, wait_for
from bench.stack import Server, api, send_workers, stack
from bench.turns import Row


def run(options: Options) -> list[Row]:
    """The row of O, in milliseconds."""
    singles = options.amount(60, 5)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        hostile, small = open_shop(parts, "Hostile"), open_shop(parts, "Small")
        server = kept.enter_context(api(parts))
        rate(server.port, hostile_requests(hostile), lambda status, _: status == 202, clients=2)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the first of the other account's mails arrives", 60)
        kept.enter_context(_sending_continuously(server, hostile))
        times = times_to_leave(server, target, small, singles)
        if target.count()["wrong"]:
            raise CaseFailure(f"wrong mails: {target.count()}")
    return [row("O. beside the worst content, p95", times)]


@contextlib.contextmanager
def _sending_continuously(server: Server, shop: Shop) -> Iterator[None]:
    """One client sends the most expensive content, one request after the other, until the block ends."""
    over = threading.Event()
    requests = itertools.takewhile(lambda _: not over.is_set(), itertools.cycle(hostile_requests(shop)))
    client = threading.Thread(target=rate, args=(server.port, requests, lambda status, _: status == 202, 1))
    client.start()
    try:
        yield
    finally:
        over.set()
        client.join()
