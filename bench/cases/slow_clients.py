"""Case K: does the API answer beside 1,000 connections that are idle or trickle, and while the database hangs?"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

from bench.contacts import fill, open_shop
from bench.crowd import crowd
from bench.load import fetch, rate, request
from bench.options import Options
from bench.processes import CaseFailure, children
from bench.stack import Server, Stack, api, stack
from bench.turns import Goal, Row, in_turns, percentile

MAX_SECONDS = 1.0
"""Seconds for /healthz."""
PAUSE = 0.1
REQUESTS = 100
"""Requests that wait for the hanging database: many more than there are threads."""

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def run(options: Options) -> list[Row]:
    """The rows of K."""
    size, samples, count = options.amount(1000, 200), options.amount(100, 10), options.amount(2000, 200)
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        fill(parts, shop, 100)
        server = kept.enter_context(api(parts))
        encoded_request = request("GET", f"/v1/lists/{shop.list_id}/contacts/50", shop.token)

        def requests_a_second() -> float:
            return rate(server.port, [encoded_request] * count, lambda status, _body: status == 200, life=count // 40)

        def beside() -> float:
            with crowd(server.port, size):
                return requests_a_second()

        rows = [
            in_turns(
                f"K. GET one contact beside {size:,} slow clients",
                "requests/s",
                Goal(0.5),
                options.rounds,
                ours=beside,
                floor=requests_a_second,
            )
        ]
        with crowd(server.port, size) as present:
            rows.append(_row(f"K. /healthz beside {size:,} slow clients", _health(server, samples)))
            with _hanging(parts), _waiting(server, shop.token):
                rows.append(_row("K. the same while database and Redis hang", _health(server, samples)))
            if present.size < size:
                raise CaseFailure(f"{size - present.size} connections could not be opened")
        _recovers(server, encoded_request)
        return rows


def _health(server: Server, samples: int) -> list[float]:
    """The seconds that each request to /healthz takes, over a connection of its own."""
    times = []
    for _ in range(samples):
        began = time.perf_counter()
        status, _ = fetch(server.port, HEALTH)
        times.append(time.perf_counter() - began)
        if status != 200:
            raise CaseFailure(f"/healthz answered {status}")
        time.sleep(PAUSE)
    return times


@contextlib.contextmanager
def _hanging(parts: Stack) -> Iterator[None]:
    """Suspends PostgreSQL and Redis; a SQLite file cannot hang."""
    stopped = [int(parts.services.redis.info("server")["process_id"])]
    if parts.is_postgresql:
        first = int((parts.folder / "pg" / "postmaster.pid").read_text().split()[0])
        stopped += [first, *children(first)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _waiting(server: Server, token: str) -> Iterator[None]:
    """Keeps requests open that need the database, without waiting for their answers."""
    encoded_request = request("GET", "/v1/lists", token)
    with contextlib.ExitStack() as kept:
        for _ in range(REQUESTS):
            link = kept.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            link.sendall(encoded_request)
        yield


def _recovers(server: Server, encoded_request: bytes) -> None:
    """Raises `CaseFailure` unless the API answers again once PostgreSQL and Redis go on."""
    deadline = time.monotonic() + 60
    while fetch(server.port, encoded_request)[0] != 200:
        if time.monotonic() > deadline:
            raise CaseFailure("the API does not answer although PostgreSQL and Redis do")
        time.sleep(PAUSE)


def _row(case: str, times: list[float]) -> Row:
    """The longest time, with the usual ones beside it."""
    usual = ", ".join(f"p{round(part * 100)} {percentile(times, part) * 1000:.1f}" for part in (0.5, 0.95))
    return Row(case, "ms", max(times) * 1000, detail=usual, goal=Goal(most=MAX_SECONDS * 1000))
