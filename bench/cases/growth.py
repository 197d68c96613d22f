"""Case I: what is quick with 10,000 contacts and recipients must be quick with 5,000,000."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.clock import now
from app.infrastructure.redis_client import WEBHOOKS
from app.sends.delivery.claim import claim
from bench.cases.webhooks import load_events
from bench.contacts import Shop, draft, open_shop
from bench.large import fill_both
from bench.load import fetch, rate, request
from bench.mail import send_request
from bench.options import Options
from bench.processes import CaseFailure, running, wait_for
from bench.receiver import answers, bodies_at
from bench.stack import Server, Stack, api, free_port, stack
from bench.turns import Goal, Measure, Row, in_turns

MAX_SLOWDOWN = 1.3
FIRST_NEW = 50_000_000
"""The number of the first contact that a round creates."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One of the two. `count` is the number of contacts, and of recipients, that it was filled with."""

    parts: Stack
    shop: Shop
    server: Server
    receiver: int
    count: int
    numbers: Iterator[int]

    @property
    def contacts(self) -> str:
        """The path of the list's contacts."""
        return f"/v1/lists/{self.shop.list_id}/contacts"

    def get(self, path: str) -> bytes:
        """A request for the path."""
        return request("GET", path, self.shop.token)


Case = Callable[[Installation, Options], Measure]


def run(options: Options) -> list[Row]:
    """The rows of I: `floor` is the same service with few rows. None on SQLite."""
    if not options.postgresql:
        return []
    with contextlib.ExitStack() as kept:
        small = kept.enter_context(_installation(options.amount(10_000, 1_000)))
        large = kept.enter_context(_installation(options.amount(5_000_000, 20_000)))
        goal = Goal(1 / MAX_SLOWDOWN)
        rows = [
            in_turns(f"I. {name}", unit, goal, options.rounds, ours=make(large, options), floor=make(small, options))
            for name, (unit, make) in CASES.items()
        ]
        return [*rows, _counts(small, large)]


@contextlib.contextmanager
def _installation(count: int) -> Iterator[Installation]:
    port = free_port()
    with stack(postgresql=True, WEBHOOK_SPACING="0") as parts, contextlib.ExitStack() as kept:
        kept.enter_context(running("receiver", ["-m", "bench.receiver", str(port)], {}, parts.folder))
        shop = open_shop(parts, webhook=f"http://127.0.0.1:{port}/in")
        server = kept.enter_context(api(parts))
        fill_both(parts, shop, server, count)
        kept.enter_context(running("webhooks", ["-m", "jobs.worker", WEBHOOKS], parts.environment, parts.folder))
        wait_for(lambda: answers(port), "the receiver answers")
        yield Installation(parts, shop, server, port, count, itertools.count(FIRST_NEW))


def _one_contact(at: Installation, options: Options) -> Measure:
    """The same contacts in every round, from anywhere in the list."""
    chosen = random.Random(1).choices(range(1, at.count + 1), k=options.amount(2000, 100))
    return _requests(at, [at.get(f"{at.contacts}/{number}") for number in chosen])


def _page(query: str) -> Case:
    def case(at: Installation, options: Options) -> Measure:
        return _requests(at, [at.get(f"{at.contacts}?limit=1000{query}")] * options.amount(60, 4))

    return case


def _by_email(at: Installation, options: Options) -> Measure:
    chosen = random.Random(2).choices(range(1, at.count + 1), k=options.amount(1000, 50))
    return _requests(at, [at.get(f"{at.contacts}?email={draft(number)['email']}") for number in chosen])


def _requests(at: Installation, requests: list[bytes]) -> Measure:
    return lambda: rate(at.server.port, requests, lambda status, body: status == 200 and len(body) > 100)


def _create(at: Installation, options: Options) -> Measure:
    def measure() -> float:
        bodies = [{"contacts": [draft(next(at.numbers)) for _ in range(1000)]} for _ in range(options.amount(8, 2))]
        requests = [request("POST", at.contacts, at.shop.token, orjson.dumps(body)) for body in bodies]
        speed = rate(at.server.port, requests, lambda status, _: status == 204, life=2)
        _forget_events(at)
        return speed

    return measure


def _send(at: Installation, options: Options) -> Measure:
    def measure() -> float:
        numbers = [next(at.numbers) for _ in range(options.amount(500, 50))]
        requests = [send_request(at.shop, range(number, number + 1)) for number in numbers]
        return rate(at.server.port, requests, lambda status, _: status == 202)

    return measure


def _claim(at: Installation, options: Options) -> Measure:
    """Claims of 100 due recipients, rolled back at the end."""

    def measure() -> float:
        claims = options.amount(20, 3)
        with at.parts.services.database.write() as transaction:
            began = time.perf_counter()
            claimed = [claim(transaction, "bench", size=100, after=0) for _ in range(claims)]
            elapsed = time.perf_counter() - began
            transaction.rollback()
        if {len(batch) for batch in claimed} != {100}:
            raise CaseFailure(f"a claim has fewer than 100 recipients: {[len(batch) for batch in claimed]}")
        return claims / elapsed

    return measure


def _dispatch(at: Installation, options: Options) -> Measure:
    def measure() -> float:
        count = options.amount(20_000, 2_000)
        wait_for(lambda: bodies_at(at.receiver) == 0 or _report(at), "the receiver has forgotten the last round")
        load_events(at.parts, at.shop, count)
        began = time.perf_counter()
        at.parts.services.wake_ups.wake(WEBHOOKS)
        wait_for(lambda: bodies_at(at.receiver) >= count // 1000, "all batches have arrived", 120)
        elapsed = time.perf_counter() - began
        _report(at)
        return count / elapsed

    return measure


def _report(at: Installation) -> bool:
    """Lets the receiver report, whereupon it forgets what it has received."""
    fetch(at.receiver, request("GET", "/report", ""))
    return True


def _forget_events(at: Installation) -> None:
    with at.parts.connect() as connection:
        connection.execute("TRUNCATE events")
        connection.commit()


CASES: dict[str, tuple[str, Case]] = {
    "GET one contact": ("requests/s", _one_contact),
    "GET 1,000 contacts": ("requests/s", _page("")),
    "the same, plan=gold": ("requests/s", _page("&plan=gold")),
    "GET contacts by email": ("requests/s", _by_email),
    "POST 1,000 contacts": ("requests/s", _create),
    "POST a send to 1": ("requests/s", _send),
    "claim 100 due recipients": ("claims/s", _claim),
    "dispatch of events": ("events/s", _dispatch),
}


def _counts(small: Installation, large: Installation) -> Row:
    """The time that `limit=0` takes."""
    few, many = (_seconds_of_count(at) for at in (small, large))
    return Row("I. limit=0, the number of contacts", "ms", many * 1000, few * 1000)


def _seconds_of_count(at: Installation) -> float:
    encoded_request = at.get(f"{at.contacts}?limit=0")
    fetch(at.server.port, encoded_request)
    began = time.perf_counter()
    status, body = fetch(at.server.port, encoded_request)
    page: dict[str, Any] = orjson.loads(body)
    if status != 200 or page["size"] < at.count:
        raise CaseFailure(f"wrong count: {page} at {now()}")
    return time.perf_counter() - began
