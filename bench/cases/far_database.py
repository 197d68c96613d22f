"""Case L: what do A, D1 and E cost with a database that is half a millisecond away?

`floor` is the same service without the delay. Its statements pass through the same kind of process, so that the cost of
that process is in both.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs, urlsplit

from bench.cases.reading import measures_of
from bench.cases.writing import CONTACTS, send_of, sends_of
from bench.contacts import Shop, fill, open_shop
from bench.delivering import Delivery, without_keys
from bench.load import fetch, request
from bench.mail import sink
from bench.options import Options
from bench.processes import CaseFailure, listens, running, wait_for
from bench.stack import Server, Stack, api, free_port, stack
from bench.turns import Goal, Row, in_turns, percentile

EACH_WAY = 0.00025
"""Seconds in each direction: a round trip takes half a millisecond longer, as between two buildings of one region."""
GOAL = Goal(1 / 1.3)
SOCKET = ".s.PGSQL.5432"


def run(options: Options) -> list[Row]:
    """The rows of L. There are none on SQLite, which is no server."""
    if not options.postgresql:
        return []
    with stack(postgresql=True) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        fill(parts, shop, CONTACTS)
        far, near = (kept.enter_context(_seen_from(parts, name, delay)) for name, delay in PLACES.items())
        servers = [
            replace(kept.enter_context(api(server_parts)), name=name)
            for name, server_parts in (("ours", far), ("floor", near))
        ]
        with without_keys(parts):  # first: no worker sends what the other cases accept
            delivered = _delivering(options, open_shop(parts, "Mails"), servers[1], far, near)
        rows = [_reading(options, shop, servers), _alone(options, shop, servers)]
        return [*rows, _sending(options, parts, shop, servers), delivered]


PLACES = {"far": EACH_WAY, "near": 0.0}


@contextlib.contextmanager
def _seen_from(parts: Stack, name: str, delay: float) -> Iterator[Stack]:
    """The installation for processes whose database is this far away, with a folder of their own for logs."""
    port, folder = free_port(), parts.folder / name
    folder.mkdir()
    address = urlsplit(parts.database_url)
    target = f"{parse_qs(address.query)['host'][0]}/{SOCKET}"
    url = f"postgresql+psycopg://{address.username}:@127.0.0.1:{port}{address.path}"
    arguments = ["-m", "bench.distance", str(port), target, str(delay)]
    with running("distance", arguments, {}, folder):
        wait_for(lambda: listens(port), "the connection to the database is open")
        yield replace(parts, folder=folder, environment={**parts.environment, "DATABASE_URL": url})


def _reading(options: Options, shop: Shop, servers: list[Server]) -> Row:
    measures = measures_of(servers, _contact(shop), options.amount(2000, 100))
    return in_turns("L. GET one contact, database 0.5 ms away", "requests/s", GOAL, options.rounds, **measures)


def _contact(shop: Shop) -> bytes:
    return request("GET", f"/v1/lists/{shop.list_id}/contacts/{CONTACTS // 2}", shop.token)


def _sending(options: Options, parts: Stack, shop: Shop, servers: list[Server]) -> Row:
    numbers, count = itertools.count(), options.amount(600, 60)
    fetch(servers[0].port, send_of(shop, numbers, 1))  # creates the group
    make = partial(send_of, shop, numbers, 1)
    measures = {server.name: sends_of(parts, server, make, 1, count) for server in servers}
    return in_turns("L. POST a send to 1, the same", "requests/s", GOAL, options.rounds, **measures)


def _delivering(options: Options, shop: Shop, server: Server, far: Stack, near: Stack) -> Row:
    count = options.amount(12_000, 300)
    with contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(far))
        ours, floor = (
            kept.enter_context(Delivery(server_parts, shop, server, target).ours(count)) for server_parts in (far, near)
        )
        return in_turns("L. deliver, 1 process, the same", "mails/s", GOAL, options.rounds, ours=ours, floor=floor)


def _alone(options: Options, shop: Shop, servers: list[Server]) -> Row:
    """One client that waits for each answer, without a goal: it shows how many round trips a request waits for."""
    encoded_request, count = _contact(shop), options.amount(200, 10)
    times: dict[str, list[float]] = {server.name: [] for server in servers}
    for _ in range(count):
        for server in servers:
            times[server.name].append(_seconds_of(server, encoded_request))
    far, near = (percentile(times[server.name], 0.5) * 1000 for server in servers)
    return Row("L. GET one contact, one client, p50", "ms", far, near)


def _seconds_of(server: Server, encoded_request: bytes) -> float:
    began = time.perf_counter()
    status, body = fetch(server.port, encoded_request)
    if status != 200:
        raise CaseFailure(f"status {status}: {body[:500]!r}")
    return time.perf_counter() - began
