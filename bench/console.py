"""The latency of each page of the console in a large installation: `python -m bench.console`
(docs/benchmark.md#pages-of-the-console).

An operator's session follows the links of the console, one of each kind, and then asks for all of these pages in turn,
while clients send and read through the API. A page of 100 recipients of the API is measured among them, to compare.
"""

from __future__ import annotations

import argparse
import html
import re
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from app.accounts.sessions import make_link, start_with_link
from app.http.console.guard import PLAIN_COOKIE
from bench.contacts import open_shop
from bench.large import OWN_COLUMNS, accepted_recipient, fill_contacts, fill_recipients
from bench.load import fetch, request
from bench.processes import CaseFailure
from bench.purging import Load
from bench.stack import Stack, api, stack

MAX_MILLISECONDS = 300
"""Milliseconds that a page may take at p95."""
HOME = "/console"
API_PAGE = "/v1/transactional-sends?limit=100"
LINK = re.compile(r'href="(/console[^"#]*)"')
ID = re.compile(r"(?<=[/=])(?:[0-9]+|[0-9a-f-]{36})(?=$|[/?&])")
CURSOR = re.compile(r"(?<=cursor=)[^&]+")
MAX_KINDS = 80
EXCLUDED_PATHS = ("/console/static", "/console/assets", "/console/messages/all.csv")
"""Files, the last of which has up to 100,000 rows."""
ACCEPTED_COLUMNS = {**OWN_COLUMNS, "creation_time": "timestamptz '2026-10-01' + n * interval '0.1 second'"}
"""Columns in which the recipients differ: they were accepted one after the other."""
LIFETIME = timedelta(hours=6)
WARM_UP_ROUNDS = 3


def sign_in(parts: Stack) -> str:
    """The cookie of an operator."""
    with parts.services.database.write() as transaction:
        return start_with_link(transaction, make_link(transaction, None), LIFETIME)


def asked(path: str, cookie: str) -> bytes:
    """The request of a browser for the page."""
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {PLAIN_COOKIE}={cookie}\r\nAccept: text/html\r\n"
    return f"{head}Sec-Fetch-Site: same-origin\r\n\r\n".encode()


def kind_of(path: str) -> str:
    """The path without its ids and cursors: pages of the same kind have the same one."""
    return CURSOR.sub("…", ID.sub("N", path))


def pages(port: int, cookie: str) -> dict[str, str]:
    """Kind -> path of a page, for every page to which a link leads."""
    paths_by_kind: dict[str, str] = {}
    waiting = deque([HOME])
    while waiting and len(paths_by_kind) < MAX_KINDS:
        path = waiting.popleft()
        kind = kind_of(path)
        if kind in paths_by_kind or kind.startswith(EXCLUDED_PATHS):
            continue
        status, body = fetch(port, asked(path, cookie))
        if status in {302, 303}:
            continue
        if status != 200:
            raise CaseFailure(f"{path}: {status} {body.decode()}")
        paths_by_kind[kind] = path
        waiting.extend(html.unescape(each) for each in LINK.findall(body.decode(errors="replace")))
    return paths_by_kind


def measure(port: int, asked_for: dict[str, bytes], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each request, in turn."""
    times_by_name: dict[str, list[float]] = {name: [] for name in asked_for}
    for number in range(WARM_UP_ROUNDS + rounds):
        for name, encoded_request in asked_for.items():
            began = time.perf_counter()
            status, body = fetch(port, encoded_request)
            if status != 200:
                raise CaseFailure(f"{name}: {status} {body[:300]!r}")
            if number >= WARM_UP_ROUNDS:
                times_by_name[name].append((time.perf_counter() - began) * 1000)
    return times_by_name


def table(times_by_name: dict[str, list[float]]) -> Iterator[str]:
    """A line for each page, the slowest first."""
    quantiles = {name: statistics.quantiles(times, n=20) for name, times in times_by_name.items()}
    api_time = quantiles[API_PAGE][18]
    yield "| page | p50 | p95 | to the API's page of 100 |"
    yield "| --- | ---: | ---: | ---: |"
    for name in sorted(times_by_name, key=lambda page_name: -quantiles[page_name][18]):
        middle, slow = quantiles[name][9], quantiles[name][18]
        yield f"| `{name}` | {middle:.0f} ms | {slow:.0f} ms | {slow / api_time:.2f} |"


def run(parts: Stack, given: argparse.Namespace) -> int:
    shop = open_shop(parts)
    with api(parts) as server:
        fill_contacts(parts, shop, given.contacts)
        fill_recipients(parts, accepted_recipient(parts, shop, server), given.rows, ACCEPTED_COLUMNS)
        with parts.connect() as connection:
            connection.autocommit = True
            connection.execute("ANALYZE")
            connection.execute("CHECKPOINT")
        cookie = sign_in(parts)
        api_request = request("GET", API_PAGE, shop.token)
        asked_for = {API_PAGE: api_request}
        asked_for |= {kind: asked(path, cookie) for kind, path in pages(server.port, cookie).items()}
        ended = threading.Event()
        with ThreadPoolExecutor(1) as beside:
            load = beside.submit(Load(server.port, shop).measure, ended)
            try:
                times_by_name = measure(server.port, asked_for, given.rounds)
            finally:
                ended.set()
            sends = len(load.result().sends)
    print(*table(times_by_name), sep="\n")
    slow = [name for name, times in times_by_name.items() if statistics.quantiles(times, n=20)[18] > MAX_MILLISECONDS]
    print(f"{given.rounds} requests of each page, beside {sends} sends and as many reads of the API")
    print(f"over {MAX_MILLISECONDS} ms: {', '.join(slow)}" if slow else f"no page is over {MAX_MILLISECONDS} ms at p95")
    return int(bool(slow))


def main(arguments: Sequence[str]) -> int:
    """1 if a page takes more than 300 ms at p95."""
    parser = argparse.ArgumentParser(prog="python -m bench.console")
    parser.add_argument("--rows", type=int, default=5_000_000, help="recipients")
    parser.add_argument("--contacts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40, help="requests of each page")
    given = parser.parse_args(arguments)
    with stack(postgresql=True) as parts:
        return run(parts, given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
