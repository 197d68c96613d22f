"""Measures the delivery of accepted mails by our workers, by the floors and by the peer (cases E and L).

The mails are accepted while the workers are suspended (SIGSTOP). The clock runs from the moment when they continue
until nothing is queued or in flight according to the database.
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
from sqlalchemy import delete, insert, select, text

from app.db.models import DkimKey
from app.infrastructure.redis_client import SENDS
from bench import post_office
from bench.contacts import Shop
from bench.floors.delivery import CREATE
from bench.floors.promises import CREATE as PROMISES
from bench.mail import Sink, accept, values
from bench.parts import ProcessorTimes
from bench.processes import CaseFailure, all_busy, wait_for
from bench.stack import Server, Stack, plain_url, send_workers
from bench.started import seconds_of
from bench.turns import Measure

REST_SECONDS = 1.0
"""Seconds until the last wake-up is handled: a process suspended in a transaction would keep SQLite locked."""
COUNT_UNFINISHED = text(
    "SELECT count(*) FROM (SELECT 1 FROM send_queue WHERE state <> 'uncertain' LIMIT 1) AS unfinished"
)
FILL_PROMISES = 'COPY promised_mails (id, uuid, email, "values", state) FROM STDIN'
COUNT_DELIVERED = text("SELECT count(*) FROM recipients WHERE state = 'delivered'")


def fill_promises(url: str, first: int, count: int) -> None:
    """Leaves so many mails to the floor that keeps the promises of the service."""
    with psycopg.connect(url) as connection:
        connection.execute(PROMISES)
        connection.execute("TRUNCATE promised_mails, promised_steps")
        with connection.cursor().copy(FILL_PROMISES) as copy:
            for number in range(first, first + count):
                address = f"person{number}@customers.example"
                copy.write_row((number, str(uuid4()), address, orjson.dumps(values(number)).decode(), "queued"))


class Delivery:
    """Our workers, the floors and the peer on one stack. Recipients are numbered through all rounds, so that no two
    mails are alike."""

    def __init__(self, parts: Stack, shop: Shop, server: Server, target: Sink) -> None:
        self.parts = parts
        self._shop = shop
        self._server = server
        self._sink = target
        self._numbers = itertools.count(1)
        self._next = 0
        self.times = ProcessorTimes(parts, "E. processor time of a mail", target)
        """The processor time of the rounds of `ours`."""

    @contextlib.contextmanager
    def ours(self, count: int, *, processes: int = 1, per_send: int = 100, tracked: bool = False) -> Iterator[Measure]:
        """Rounds of our own workers, which run from the first round to the last."""
        with send_workers(self.parts, processes, EMAIL_TRANSPORT_URL=self._sink.url) as workers:
            wait_for(lambda: self._are_ready(processes), "the workers wait for work")
            time.sleep(REST_SECONDS)
            _signal(workers, signal.SIGSTOP)

            def measure() -> float:
                self._sink.reset()
                accept(self._server, self._shop, self._take(count), count, per_send, tracked=tracked)
                before = self._count_delivered()
                began = time.perf_counter()
                with all_busy(workers, "ours"), self.times.round(workers, count):
                    _signal(workers, signal.SIGCONT)
                    wait_for(self._is_done, "all is delivered", 300, pause=0.02)
                    seconds = time.perf_counter() - began
                    time.sleep(REST_SECONDS)
                    _signal(workers, signal.SIGSTOP)
                if self._count_delivered() - before != count:
                    raise CaseFailure("not every mail is recorded as delivered")
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
            fill_promises(url, self._take(count), count)
            seconds = seconds_of(["bench.floors.promises", url, str(self._sink.port)], {})
            self._sink.check(count)
            with psycopg.connect(url) as connection:
                (recorded,) = connection.execute("SELECT count(*) FROM promised_steps").fetchone() or (0,)
            if recorded != count:
                raise CaseFailure("the floor has not recorded every mail")
            return count / seconds

        return measure

    def peer(self, count: int) -> Measure:
        """Rounds of django-post_office, whose mails are numbered from 0 in each."""
        environment = {**post_office.prepare(self.parts), "PEER_SMTP_PORT": str(self._sink.port)}

        def measure() -> float:
            self._sink.reset()
            post_office.call(environment, ["queue", str(count)])
            seconds = post_office.seconds_of(environment, ["deliver"], 1)
            self._sink.check(count)
            return count / seconds

        return measure

    def _are_ready(self, processes: int) -> bool:
        """Whether so many workers have logged that they started."""
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
        """Also wakes the workers: a suspended one of another measure may have taken their wake-up."""
        self.parts.services.wake_ups.wake(SENDS)
        with self.parts.services.database.read() as session:
            return int(session.execute(COUNT_UNFINISHED).scalar_one()) == 0

    def _count_delivered(self) -> int:
        with self.parts.services.database.read() as session:
            return int(session.execute(COUNT_DELIVERED).scalar_one())


@contextlib.contextmanager
def without_keys(parts: Stack, algorithm: str = "%") -> Iterator[None]:
    """In the block mails have no signature, or only that of the other algorithm."""
    keys: list[Any] = []
    with parts.services.database.write() as transaction:
        chosen = select(DkimKey.__table__).where(DkimKey.algorithm.like(algorithm))
        keys += [dict(row) for row in transaction.execute(chosen).mappings()]
        transaction.execute(delete(DkimKey).where(DkimKey.algorithm.like(algorithm)))
    yield
    with parts.services.database.write() as transaction:
        transaction.execute(insert(DkimKey), keys)


def _signal(workers: Sequence[int], number: signal.Signals) -> None:
    for worker in workers:
        os.kill(worker, number)
