"""The cost of watching an installation with few recipients and with many: `make growth ARGS=--watching`
(docs/monitoring/metrics.md#what-a-scrape-costs).

Both have the same work left, a thousand messages that are due; the others are delivered. Nothing sends them.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import func, insert, literal, select, text

from app.clock import now
from app.db.bounded_connection import COMMAND_SECONDS, limit_waits
from app.db.models import QueueEntry, Recipient, table_of
from app.maintenance.figures import read_figures
from app.maintenance.overview import read_overview
from bench.contacts import Shop, open_shop
from bench.large import OWN_COLUMNS, ROWS_PER_STATEMENT, fill_recipients
from bench.load import fetch, request
from bench.mail import accept
from bench.processes import CaseFailure, wait_for
from bench.stack import Server, Stack, api, stack
from tests.support.filled import NUMBERS

DUE_ENTRIES = 1_000
WARM_UP_SCRAPES = 50
"""Scrapes before the measurement, so that each process of the API has answered some."""
DELIVERED_COLUMNS = {**OWN_COLUMNS, "state": "'delivered'"}
SQLITE_COLUMNS = {**DELIVERED_COLUMNS, "uuid": "'0b0a6d4e-5d0c-4c57-9d0e-' || printf('%012x', n)"}


@dataclass(frozen=True, slots=True, eq=False)
class WatchedInstallation:
    """The small or the large installation."""

    parts: Stack
    server: Server

    def scrape(self) -> None:
        """What Prometheus asks for, over a new connection."""
        if not self.has_figures():
            raise CaseFailure("a scrape shows no figures")

    def has_figures(self) -> bool:
        """Whether a scrape shows them; the first ones of a process may come without."""
        status_code, body = fetch(self.server.port, request("GET", "/metrics", ""))
        return status_code == 200 and b"\ntms_queue_entries{" in body

    def figures(self) -> None:
        """What a scrape shows of the installation, and a process reads for it from time to time."""
        with self.parts.services.database.read() as session:
            read_figures(session, self.parts.services.settings)

    def overview(self) -> None:
        """What `tms status` and `tms top` read."""
        read_overview(self.parts.services)


LINES: dict[str, Callable[[WatchedInstallation], None]] = {
    "GET /metrics": WatchedInstallation.scrape,
    "reading the figures for it": WatchedInstallation.figures,
    "tms status and tms top": WatchedInstallation.overview,
}


@contextlib.contextmanager
def watched(count: int, due: int, *, postgresql: bool) -> Iterator[WatchedInstallation]:
    """An installation with so many recipients, of which some are due."""
    with stack(postgresql=postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        _fill(parts, shop, server, count)
        _make_due(parts, due)
        made = WatchedInstallation(parts, server)
        for _ in range(WARM_UP_SCRAPES):
            wait_for(made.has_figures, "a scrape shows figures", pause=0.1)
        yield made


def _fill(parts: Stack, shop: Shop, server: Server, count: int) -> None:
    """Adds copies of a recipient that the API has accepted."""
    accept(server, shop, 0, 1, 1)
    with parts.services.database.read() as session:
        template = session.execute(select(func.min(Recipient.id))).scalar_one()
    if parts.is_postgresql:
        fill_recipients(parts, template, count, DELIVERED_COLUMNS)
        return
    columns = [column.name for column in table_of(Recipient).columns if column.name != "id"]
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(SQLITE_COLUMNS.get(name, f'one."{name}"') for name in columns)
    for first in range(1, count + 1, ROWS_PER_STATEMENT):
        numbers = NUMBERS["sqlite"].format(first=first, last=min(first + ROWS_PER_STATEMENT - 1, count))
        copies = f"SELECT {values} FROM recipients one, ({numbers}) numbers WHERE one.id = {template}"
        with parts.services.database.write() as transaction:
            transaction.execute(text(f"INSERT INTO recipients ({names}) {copies}".replace(":", r"\:")))


def _make_due(parts: Stack, due: int) -> None:
    moment = now()
    given = {"account_id": Recipient.account_id, "type": Recipient.type, "recipient_id": Recipient.id}
    values_of_due = {"priority": "normal", "state": "queued", "due_time": moment, "ready_time": moment, "attempts": 0}
    columns = table_of(QueueEntry).c
    settled = Recipient.id.not_in(select(QueueEntry.recipient_id))
    rows = select(*given.values(), *(literal(value, columns[name].type) for name, value in values_of_due.items()))
    with limit_waits(COMMAND_SECONDS), parts.services.database.write() as transaction:
        entries = rows.where(settled).order_by(Recipient.id).limit(due)
        transaction.execute(insert(columns.recipient_id.table).from_select([*given, *values_of_due], entries))
    if parts.is_postgresql:
        with parts.connect() as connection:
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE send_queue")
            connection.execute("CHECKPOINT")


def compare(
    small: WatchedInstallation, large: WatchedInstallation, rounds: int, counts: tuple[int, int], most_slower: float
) -> list[str]:
    """Prints the least time of each line for either; returns the lines that grow. Each round measures all of them, so
    that what else the machine does disturbs none more than another."""
    times: dict[tuple[str, WatchedInstallation], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, line in LINES.items():
            for at in (small, large):
                began = time.perf_counter()
                line(at)
                times[name, at].append((time.perf_counter() - began) * 1000)
    print(f"| {'watching':42} | {counts[0]:>10,} | {counts[1]:>10,} | ratio |")
    print(f"|{'-' * 44}|{'-' * 11}:|{'-' * 11}:|------:|")
    grown = []
    for name in LINES:
        few, many = min(times[name, small]), min(times[name, large])
        if many / few > most_slower:
            grown.append(name)
        print(f"| {name:42} | {few:7.1f} ms | {many:7.1f} ms | {many / few:5.2f} |")
    return grown
