"""Case M: how soon does an account's message leave while 10,000 other accounts have due messages?"""

from __future__ import annotations

import contextlib

from bench.accounts import fill_accounts
from bench.contacts import open_shop
from bench.leaving import row, times_to_leave
from bench.mail import accept, sink
from bench.options import Options
from bench.processes import CaseFailure, wait_for
from bench.stack import api, send_workers, stack
from bench.turns import Row

MESSAGES_PER_ACCOUNT = 20
"""The due messages of an account."""
MIN_MESSAGES = 5
"""Messages of each priority that must leave before the backlog ends."""


def run(options: Options) -> list[Row]:
    """The rows of M, in milliseconds: messages of either priority, in turn."""
    accounts, singles = options.amount(10_000, 100), options.amount(15, 3)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        template, urgent = open_shop(parts, "Template"), open_shop(parts, "Urgent")
        server = kept.enter_context(api(parts))
        accept(server, template, 0, 1, 1)
        fill_accounts(parts, template, accounts, MESSAGES_PER_ACCOUNT)
        kept.enter_context(send_workers(parts, 1, EMAIL_TRANSPORT_URL=target.url))
        wait_for(lambda: target.count()["mails"] > 0, "the first mail of the backlog arrives")
        backlog = accounts * MESSAGES_PER_ACCOUNT + 1
        times: dict[str, list[float]] = {"high": [], "normal": []}
        while len(times["normal"]) < singles and (options.short or target.count()["mails"] < backlog):
            for priority in times:
                times[priority] += times_to_leave(server, target, urgent, 1, priority)
        if len(times["normal"]) < MIN_MESSAGES and not options.short:
            raise CaseFailure(f"the backlog ended too soon: {times}")
        mails = backlog + sum(map(len, times.values()))
        wait_for(lambda: target.count()["mails"] >= mails, "all is sent", 600, pause=0.1)
        target.check(mails)
    return [row(f"M. beside {accounts:,} accounts, {name}, p95", seconds) for name, seconds in times.items()]
