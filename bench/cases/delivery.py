"""Cases E and E2: accepted mails delivered over SMTP, with their outcomes recorded, by one worker process and by two.

The mails are accepted while the workers are stopped (SIGSTOP). The clock runs from the moment in which they go on to
the one in which nothing is queued or in flight any more, by what the database says.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import psycopg
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import delete, insert, select, text

from app.db.models import DkimKey
from app.infrastructure.queueing import SENDS
from bench import post_office
from bench.contacts import Shop, open_shop
from bench.floors.delivery import CREATE
from bench.floors.promises import CREATE as PROMISES
from bench.mail import Sink, accept, sink, values
from bench.options import Options
from bench.processes import Failed, all_busy, wait_for
from bench.stack import Server, Stack, api, plain_url, send_workers, stack
from bench.started import seconds_of
from bench.turns import Goal, Measure, Row, in_turns

REST = 1.0
"""Seconds until the last wake-up has been looked at: a process stopped in a transaction would keep SQLite locked."""
LEFT = text("SELECT count(*) FROM (SELECT 1 FROM send_queue WHERE state <> 'uncertain' LIMIT 1) AS unfinished")
FILL_PROMISES = 'COPY promised_mails (id, uuid, email, "values", state) FROM STDIN'
DELIVERED = text("SELECT count(*) FROM recipients WHERE state = 'delivered'")


def run(options: Options) -> list[Row]:
    """The rows of E and E2."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        target = kept.enter_context(sink(parts))
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        delivery = Delivery(parts, shop, server, target)
        count = options.amount(12_000 if options.postgresql else 2_000, 300)
        with without_keys(parts):
            rows = [_one(options, delivery, count)]
            if options.postgresql:
                rows.append(_promised(options, delivery, count))
            rows += [_small(options, delivery, count // 4), _two(options, delivery, count)]
        with without_keys(parts, "ed25519"):
            return [*rows, _signed(options, delivery, count // 2)]


class Delivery:
    """What delivers, on one stack. Numbers of recipients go on from round to round, so that no mail is like another."""

    def __init__(self, parts: Stack, shop: Shop, server: Server, target: Sink) -> None:
        self.parts = parts
        self._shop = shop
        self._server = server
        self._sink = target
        self._numbers = itertools.count(1)
        self._next = 0

    @contextlib.contextmanager
    def ours(self, count: int, *, processes: int = 1, per_send: int = 100, tracked: bool = False) -> Iterator[Measure]:
        """Rounds of our own workers, which stay up from round to round."""
        with send_workers(self.parts, processes, EMAIL_TRANSPORT_URL=self._sink.url) as workers:
            wait_for(lambda: self._are_ready(processes), "the workers wait for work")
            time.sleep(REST)
            _signal(workers, signal.SIGSTOP)

            def measure() -> float:
                self._sink.reset()
                accept(self._server, self._shop, self._take(count), count, per_send, tracked=tracked)
                before = self._count_delivered()
                began = time.perf_counter()
                with all_busy(workers, "ours"):
                    _signal(workers, signal.SIGCONT)
                    wait_for(self._is_done, "all is delivered", 300, pause=0.02)
                    seconds = time.perf_counter() - began
                    time.sleep(REST)
                    _signal(workers, signal.SIGSTOP)
                if self._count_delivered() - before != count:
                    raise Failed("not every mail is noted as delivered")
                self._sink.check(count)
                return count / seconds

            try:
                yield measure
            finally:
                _signal(workers, signal.SIGCONT)

    def floor(self, count: int, key: Path | None = None) -> Measure:
        """Rounds of the floor."""
        url = plain_url(self.parts.database_url)
        arguments = ["bench.floors.delivery", url, str(self._sink.port), *([str(key)] if key else [])]

        def measure() -> float:
            self._sink.reset()
            self._fill_floor(count)
            seconds = seconds_of(arguments, {})
            self._sink.check(count)
            return count / seconds

        return measure

    def floor_with_promises(self, count: int) -> Measure:
        """Rounds of the floor that keeps the promises of the service."""
        url = plain_url(self.parts.database_url)

        def measure() -> float:
            self._sink.reset()
            first = self._take(count)
            with psycopg.connect(url) as connection:
                connection.execute(PROMISES)
                connection.execute("TRUNCATE promised_mails, promised_steps")
                with connection.cursor().copy(FILL_PROMISES) as copy:
                    for number in range(first, first + count):
                        address = f"person{number}@customers.example"
                        copy.write_row((number, str(uuid4()), address, orjson.dumps(values(number)).decode(), "queued"))
            seconds = seconds_of(["bench.floors.promises", url, str(self._sink.port)], {})
            self._sink.check(count)
            with psycopg.connect(url) as connection:
                (noted,) = connection.execute("SELECT count(*) FROM promised_steps").fetchone() or (0,)
            if noted != count:
                raise Failed("the floor has not noted every mail")
            return count / seconds

        return measure

    def peer(self, count: int) -> Measure:
        """Rounds of django-post_office. Its mails begin with number 0 each time."""
        environment = {**post_office.prepare(self.parts), "PEER_SMTP_PORT": str(self._sink.port)}

        def measure() -> float:
            self._sink.reset()
            post_office.call(environment, ["queue", str(count)])
            seconds = post_office.seconds_of(environment, ["deliver"], 1)
            self._sink.check(count)
            return count / seconds

        return measure

    def _are_ready(self, processes: int) -> bool:
        """Whether the logs of that many workers say that they have started."""
        logs = self.parts.folder.glob("sends-*.log")
        return sum("worker started" in log.read_text() for log in logs) >= processes

    def _fill_floor(self, count: int) -> None:
        first = self._take(count)
        with psycopg.connect(plain_url(self.parts.database_url)) as connection:
            connection.execute(CREATE)
            connection.execute("TRUNCATE floor_mails")
            with connection.cursor().copy('COPY floor_mails (id, email, "values", state) FROM STDIN') as copy:
                for number in range(first, first + count):
                    address = f"person{number}@customers.example"
                    copy.write_row((number, address, orjson.dumps(values(number)).decode(), "queued"))

    def _take(self, count: int) -> int:
        first = self._next
        self._next += count
        return first

    def _is_done(self) -> bool:
        """Wakes the workers, too: a stopped one of another measure may have swallowed their wake-up."""
        self.parts.services.wake_ups.wake(SENDS)
        with self.parts.services.database.read() as session:
            return int(session.execute(LEFT).scalar_one()) == 0

    def _count_delivered(self) -> int:
        with self.parts.services.database.read() as session:
            return int(session.execute(DELIVERED).scalar_one())


@contextlib.contextmanager
def without_keys(parts: Stack, algorithm: str = "%") -> Iterator[None]:
    """Mails carry no signature, or only that of the other algorithm, inside the block."""
    kept: list[Any] = []
    with parts.services.database.write() as transaction:
        chosen = select(DkimKey.__table__).where(DkimKey.algorithm.like(algorithm))
        kept += [dict(row) for row in transaction.execute(chosen).mappings()]
        transaction.execute(delete(DkimKey).where(DkimKey.algorithm.like(algorithm)))
    yield
    with parts.services.database.write() as transaction:
        transaction.execute(insert(DkimKey), kept)


def _signal(workers: Sequence[int], number: signal.Signals) -> None:
    for worker in workers:
        os.kill(worker, number)


def _one(options: Options, delivery: Delivery, count: int) -> Row:
    with delivery.ours(count) as ours:
        if not options.postgresql:
            return in_turns("E. deliver, 1 process", "mails/s", Goal(), options.rounds, ours=ours)
        peer = delivery.peer(max(count // 20, 100))
        return in_turns(
            "E. deliver, 1 process",
            "mails/s",
            Goal(0.50, 4),
            options.rounds,
            ours=ours,
            floor=delivery.floor(count),
            peer=peer,
        )


def _promised(options: Options, delivery: Delivery, count: int) -> Row:
    """Against a floor that keeps the promises of the service, too."""
    with delivery.ours(count) as ours:
        floor = delivery.floor_with_promises(count)
        return in_turns("E. the floor with its promises", "mails/s", Goal(0.50), options.rounds, ours=ours, floor=floor)


def _small(options: Options, delivery: Delivery, count: int) -> Row:
    """Sends to one recipient each, without a goal: nothing of a mail can be shared with another."""
    with delivery.ours(count, per_send=1) as ours:
        return in_turns("E. the same, a send each", "mails/s", Goal(), options.rounds, ours=ours)


def _two(options: Options, delivery: Delivery, count: int) -> Row:
    """Two processes against one, in turns: `floor` is our own single process."""
    with delivery.ours(count, processes=2) as two, delivery.ours(count) as one:
        return in_turns("E. deliver, 2 processes", "mails/s", Goal(1.8), options.rounds, ours=two, floor=one)


def _signed(options: Options, delivery: Delivery, count: int) -> Row:
    """E2: DKIM with an RSA key, and tracked."""
    folder = delivery.parts.folder
    key = folder / "key.pem"
    private = rsa.generate_private_key(65537, 2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key.write_bytes(private.private_bytes(*form))
    with delivery.ours(count, tracked=True) as ours:
        floor = delivery.floor(count, key) if options.postgresql else None
        goal = Goal(0.70) if options.postgresql else Goal()
        return in_turns("E2. DKIM and tracking", "mails/s", goal, options.rounds, ours=ours, floor=floor)
