"""Case D1 with one, two and four processes of the API: what they cost each other in the database and in Redis, where it
makes no difference whether they run on one host or on several."""

from __future__ import annotations

import contextlib
import itertools
from functools import partial

from bench.cases.writing import installation, send_of, sends_of
from bench.load import fetch
from bench.options import Options
from bench.parts import ProcessorTimes
from bench.stack import Server, api
from bench.turns import Goal, Measure, Row, in_turns

SEVERAL = (2, 4)
"""Numbers of processes. Each is measured in turns with one process."""


def run(options: Options) -> list[Row]:
    """A row with the rate of several processes, whose floor is a single one, and one with the processor time of each
    number."""
    count = options.amount(1000, 100)
    numbers = itertools.count()
    with installation(options, floor=False) as (parts, shop, _), contextlib.ExitStack() as kept:
        servers = {processes: kept.enter_context(api(parts, processes)) for processes in (1, *SEVERAL)}
        make = partial(send_of, shop, numbers, 1)
        fetch(servers[1].port, make())  # creates the group
        times = ProcessorTimes(parts, "D1. processor time of a request")

        def measure(server: Server) -> Measure:
            return sends_of(parts, server, make, 1, count, meter=partial(times.round, server.workers, count))

        rates = [
            in_turns(
                f"D1. POST a send to 1, {processes} processes",
                "requests/s",
                Goal(),
                options.rounds,
                ours=measure(servers[processes]),
                floor=measure(servers[1]),
            )
            for processes in SEVERAL
        ]
        return [*rates, *(times.row(processes) for processes in servers)]
