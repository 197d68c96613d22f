"""The latency of the API while content is purged: `python -m bench.purging`
(docs/benchmark.md#while-content-is-purged).

An installation has many recipients whose content is past its retention. Clients send and read at a fixed rate, in turn
without and with a worker of the queue `maintenance` that purges, so that what else changes on the machine meanwhile
concerns both; the quantiles are compared.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import orjson
from sqlalchemy import Connection, func, select, text

from app.db.models import Base, PurgePosition, Recipient, Send, table_of
from bench.contacts import Shop, open_shop
from bench.load import fetch, request
from bench.processes import CaseFailure, running, wait_for
from bench.stack import Stack, api, stack

PER_SEND = 10
SENDS_PER_STATEMENT = 20_000
"""Sends that are filled in by one statement."""
CLIENTS = 2
PAUSE = 0.02
"""Seconds between two requests of a client."""
AGES = {"postgresql": "now() - interval '10 days'", "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-10 days')"}
NUMBERS = {
    "postgresql": "SELECT generate_series({first}, {last}) AS n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s",
}
UUIDS = {"postgresql": "CAST(gen_random_uuid() AS text)", "sqlite": "lower(hex(randomblob(16)))"}
VALUES = {"first_name": "Ann", "reset_link": "https://shop.example/reset/0123456789abcdef0123456789abcdef"}


@dataclass(slots=True)
class Latencies:
    """Milliseconds of the requests of one phase."""

    sends: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)

    def add(self, others: Latencies) -> None:
        """Adds the latencies of another turn."""
        self.sends += others.sends
        self.reads += others.reads


def draft(shop: Shop, number: int) -> bytes:
    """A send to one recipient with values."""
    return orjson.dumps(
        {
            **{"type": "email", "group_name": "Bench", "subject": "Hello", "body_html": "<p>%%reset_link%%</p>" * 20},
            "list_id": shop.list_id,
            "recipients": [{"email": f"p{number}@customers.example", **VALUES}],
        }
    )


def fill(connection: Connection, shop: Shop, count: int) -> None:
    """Adds sends of ten days ago, each with ten delivered recipients, as copies of the first send."""
    dialect = connection.dialect.name
    first_send, first_recipient = (
        int(connection.execute(select(func.max(model.id))).scalar_one()) for model in (Send, Recipient)
    )
    # Ids of sends follow their times: those that there are count as older ones.
    connection.execute(text(f"UPDATE sends SET creation_time = {AGES[dialect]}"))
    connection.execute(text(f"UPDATE recipients SET creation_time = {AGES[dialect]}, state = 'delivered'"))
    connection.execute(text("DELETE FROM send_queue"))
    send_columns = {"creation_time": AGES[dialect]}
    recipient_columns = {
        **{"uuid": UUIDS[dialect], "creation_time": AGES[dialect], "sent_time": AGES[dialect]},
        **{"state": "'delivered'", "send_id": f"{first_send} + 1 + (n - 1) / {PER_SEND}"},
    }
    for start in range(0, count // PER_SEND, SENDS_PER_STATEMENT):
        end = min(start + SENDS_PER_STATEMENT, count // PER_SEND)
        _copy(connection, Send, first_send, send_columns, range(start + 1, end + 1))
        recipient_numbers = range(start * PER_SEND + 1, end * PER_SEND + 1)
        _copy(connection, Recipient, first_recipient, recipient_columns, recipient_numbers)
        connection.commit()


def _copy(
    connection: Connection, model: type[Base], template: int, expressions: dict[str, str], numbered: range
) -> None:
    table = table_of(model)
    names = [column.name for column in table.columns if column.name != "id"]
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(expressions.get(name, f'one."{name}"') for name in names)
    numbers = NUMBERS[connection.dialect.name].format(first=numbered[0], last=numbered[-1])
    copied = f"SELECT {values} FROM {table.name} one, ({numbers}) AS numbers WHERE one.id = {template}"
    connection.execute(text(f"INSERT INTO {table.name} ({columns}) {copied}"))


class Load:
    """Clients that send and read in turn, until the end of a phase."""

    def __init__(self, port: int, shop: Shop) -> None:
        self._port, self._shop = port, shop
        self._numbers = itertools.count(1)

    def measure(self, until: threading.Event) -> Latencies:
        """The latencies up to the event."""
        latencies = Latencies()
        with ThreadPoolExecutor(CLIENTS) as clients:
            for client in [clients.submit(self._run, latencies, until) for _ in range(CLIENTS)]:
                client.result()
        return latencies

    def _run(self, latencies: Latencies, until: threading.Event) -> None:
        read = request("GET", "/v1/transactional-sends?limit=10", self._shop.token)
        while not until.is_set():
            body = draft(self._shop, next(self._numbers))
            send = request("POST", "/v1/transactional-sends", self._shop.token, body)
            latencies.sends.append(self._milliseconds(send, 202))
            time.sleep(PAUSE)
            latencies.reads.append(self._milliseconds(read, 200))
            time.sleep(PAUSE)

    def _milliseconds(self, encoded_request: bytes, expected: int) -> float:
        began = time.perf_counter()
        status, body = fetch(self._port, encoded_request)
        if status != expected:
            raise CaseFailure(f"wrong answer: {status} {body[:300]!r}")
        return (time.perf_counter() - began) * 1000


def after(seconds: float) -> threading.Event:
    """An event that is set after so many seconds."""
    ended = threading.Event()
    threading.Timer(seconds, ended.set).start()
    return ended


def when_purged(parts: Stack, last_send: int, most: float) -> threading.Event:
    """An event that is set when purging has come to the last send, or after so many seconds."""
    ended = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + most
        while time.monotonic() < deadline and position(parts) < last_send:
            time.sleep(0.5)
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended


def position(parts: Stack) -> int:
    """How far purging of content has come."""
    with parts.services.database.read() as session:
        return session.scalar(select(func.max(PurgePosition.send_id)).where(PurgePosition.stage == "content")) or 0


def _is_past(parts: Stack, before: int) -> bool:
    return position(parts) > before


def report(idle: Latencies, busy: Latencies) -> None:
    """The quantiles of both phases and their ratios."""
    print(f"| {'request':8} | {'quantile':8} | {'idle':>9} | {'purging':>9} | ratio |")
    print("|----------|----------|----------:|----------:|------:|")
    for name, before, during in (
        ("send", idle.sends, busy.sends),
        ("read", idle.reads, busy.reads),
    ):
        for quantile in (50, 95, 99):
            few, many = (statistics.quantiles(times, n=100)[quantile - 1] for times in (before, during))
            print(f"| {name:8} | p{quantile:<7} | {few:6.1f} ms | {many:6.1f} ms | {many / few:5.2f} |")


def run(parts: Stack, given: argparse.Namespace) -> None:
    shop = open_shop(parts)
    with api(parts) as server:
        load = Load(server.port, shop)
        load.measure(after(1))
        with parts.services.database.engine.connect() as connection:
            fill(connection, shop, given.rows)
            last = int(connection.execute(select(func.max(Send.id))).scalar_one())
            if parts.is_postgresql:
                connection.execute(text("ANALYZE"))
                connection.commit()
        first = last - given.rows // PER_SEND
        idle, busy, elapsed = Latencies(), Latencies(), 0.0
        until = time.monotonic() + given.most
        while position(parts) < last and time.monotonic() < until:
            idle.add(load.measure(after(given.seconds)))
            with running("maintenance", ["-m", "jobs.worker", "maintenance"], parts.environment, parts.folder):
                wait_for(partial(_is_past, parts, position(parts)), "it purges", 60)
                began = time.monotonic()
                busy.add(load.measure(when_purged(parts, last, given.seconds)))
                elapsed += time.monotonic() - began
        purged = (min(position(parts), last) - first) * PER_SEND
        print(f"{purged:,} recipients purged in {elapsed:.0f} s, beside {len(busy.sends)} sends")
        report(idle, busy)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.purging")
    parser.add_argument("--rows", type=int, default=5_000_000, help="recipients whose content is to be purged")
    parser.add_argument("--seconds", type=float, default=30, help="length of a turn, with or without purging")
    parser.add_argument("--most", type=float, default=7200, help="seconds after which no further turn begins")
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args(arguments)
    with stack(postgresql=not given.sqlite) as parts:
        run(parts, given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
