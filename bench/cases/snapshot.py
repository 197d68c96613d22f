"""Case K2: is the queue as quick while another connection holds a snapshot, as a backup does, for 1,000,000 messages?

Two installations, in turn. The messages pass through the queue of each by the statements of a sender, which sends
nothing and writes no outcomes. In one of them the snapshot is held from the beginning.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg

from app.db.due import DueAccounts
from app.db.queue import SEND_QUEUE
from app.maintenance.sweeps import SendQueueSweep
from app.recipients.row import delete_queue_entries
from app.sends.delivery.claim import claim
from bench.contacts import open_shop
from bench.large import accepted_recipient, add_due
from bench.options import Options
from bench.processes import CaseFailure
from bench.stack import Stack, api, stack
from bench.turns import Goal, Measure, Row, in_turns

MAX_SLOWDOWN = 1.3
ROWS_PER_STATEMENT = 20_000
"""Messages that are due at once while they pass through the queue."""
BATCH = 1000


def run(options: Options) -> list[Row]:
    """The rows of K2: `floor` is the installation without the snapshot. There are none on SQLite."""
    if not options.postgresql:
        return []
    with contextlib.ExitStack() as kept:
        beside = kept.enter_context(_queue())
        alone = kept.enter_context(_queue())
        kept.enter_context(_snapshot(beside.parts))
        for queue in (beside, alone):
            queue.pass_through(options.amount(1_000_000, 2_000))
        goal = Goal(1 / MAX_SLOWDOWN)
        claims, looks = options.amount(50, 5), options.amount(200, 10)
        return [
            in_turns(
                "K2. claim 100 beside a held snapshot",
                "claims/s",
                goal,
                options.rounds,
                ours=beside.claims(claims),
                floor=alone.claims(claims),
            ),
            in_turns(
                "K2. look for work, there is none",
                "looks/s",
                goal,
                options.rounds,
                ours=beside.looks(looks),
                floor=alone.looks(looks),
            ),
        ]


class Queue:
    """The send queue of an installation, with a worker and a scheduler that remember what they found there."""

    def __init__(self, parts: Stack, template: int) -> None:
        self.parts = parts
        self._template = template
        self._due = DueAccounts(SEND_QUEUE)
        self._sweep = SendQueueSweep()

    def pass_through(self, count: int) -> None:
        """Queues, claims and settles so many messages."""
        for first in range(0, count, ROWS_PER_STATEMENT):
            waiting = min(ROWS_PER_STATEMENT, count - first)
            add_due(self.parts, self._template, waiting)
            for _ in range(0, waiting, BATCH):
                self._claim(BATCH)

    def claims(self, count: int) -> Measure:
        """Rounds of claims of 100."""

        def measure() -> float:
            add_due(self.parts, self._template, count * 100)
            return count / sum(self._claim(100) for _ in range(count))

        return measure

    def looks(self, count: int) -> Measure:
        """Rounds of the scheduler's looks, which find nothing."""

        def measure() -> float:
            began = time.perf_counter()
            for _ in range(count):
                with self.parts.services.database.read() as session:
                    if self._sweep.finds_work(session):
                        raise CaseFailure("the queue should be empty")
            return count / (time.perf_counter() - began)

        return measure

    def _claim(self, size: int) -> float:
        """Claims and then settles entries; returns the seconds of the claim."""
        began = time.perf_counter()
        with self.parts.services.database.write() as transaction:
            claimed = claim(transaction, "bench", size=size, after=0, due=self._due)
        elapsed = time.perf_counter() - began
        if len(claimed) != size:
            raise CaseFailure(f"claimed {len(claimed)} of {size}")
        with self.parts.services.database.write() as transaction:
            delete_queue_entries(transaction, [recipient.id for recipient in claimed])
        return elapsed


@contextlib.contextmanager
def _queue() -> Iterator[Queue]:
    with stack(postgresql=True) as parts:
        shop = open_shop(parts)
        with api(parts) as server:
            template = accepted_recipient(parts, shop, server)
        with parts.connect() as connection:
            connection.execute("DELETE FROM send_queue")
        yield Queue(parts, template)


@contextlib.contextmanager
def _snapshot(parts: Stack) -> Iterator[None]:
    """Another connection holds a snapshot in the block, as pg_dump does."""
    with parts.connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM accounts")
        yield
