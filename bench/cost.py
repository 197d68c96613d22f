"""What a request, a mail and an event cost, counted and not timed: `python -m bench.cost` prints the table
(docs/cost.md#counted-cost), `--postgresql` the requests with that database, and `--floor` those of a floor.

The real code runs in this process, on SQLite and warm, with Redis, the mail server and the receiver of webhooks in
processes of their own. Counted are the calls of functions, of Python and of C, in the threads that serve; the system
calls among them; and SQL statements. What SQLite and the interpreter do by themselves is not seen. The numbers are the
same on any machine and under any load: limits of time, which would decide which way the code takes, are out of reach.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import itertools
import os
import posix
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson
from flask import Flask
from gunicorn.config import Config
from sqlalchemy import event

from app import create_app
from app.db.due import FullLooks
from app.events import dispatch
from app.http.context import EXTENSION
from app.http.server.answering_threads import AnsweringThreads
from app.http.server.connection import Connection
from app.http.server.connections import Connections, make_poller
from app.http.server.request import Limits, read_once
from app.http.server.respond import respond
from app.sends.delivery import connections, dispatcher, returning, sender_worker
from app.sends.delivery import drain as draining
from app.sends.delivery.sender_worker import sender_worker_of
from app.services import Services
from bench.cases.webhooks import load_events
from bench.cases.writing import send_of
from bench.contacts import Shop, draft, fill, open_shop
from bench.delivering import fill_promises, without_keys
from bench.floors import promises
from bench.load import request
from bench.mail import send_request
from bench.processes import CaseFailure, listens, running, wait_for
from bench.stack import Stack, free_port, plain_url, stack

CONTACTS = 1500
MAILS = 1000
PER_SEND = 100
EVENTS = 10_000
AGES = 3600.0
"""In place of limits of time."""
IDLE_LOOKS = 8
"""The last looks, a tenth of a second apart, at which nothing was called when nothing is under way."""
SOCKET_CALLS = frozenset({"send", "sendall", "recv", "recv_into", "accept", "connect", "close", "shutdown"})


class Cost(NamedTuple):
    """What one unit of a case costs: a request, a mail or an event."""

    statements: float
    system_calls: float
    calls: float


class Tally:
    """The calls of all threads of this process that are counted."""

    def __init__(self) -> None:
        self._threads: list[list[int]] = []

    def begin(self, frame: Any, what: str, subject: Any) -> None:
        """Counts in the thread that calls it, from now on: for `setprofile`."""
        tally = [0, 0]
        self._threads.append(tally)

        def note(_frame: Any, what: str, subject: Any) -> None:
            if what == "c_call":
                tally[0] += 1
                tally[1] += is_system_call(subject)
            elif what == "call":
                tally[0] += 1

        sys.setprofile(note)
        note(frame, what, subject)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Counts in this thread, too."""
        sys.setprofile(self.begin)
        try:
            yield
        finally:
            sys.setprofile(None)

    def read(self) -> tuple[int, int]:
        """Calls so far, and the system calls among them."""
        calls, system_calls = map(sum, zip([0, 0], *self._threads, strict=True))
        return calls, system_calls


def is_system_call(function: Any) -> bool:
    """Whether a function of C asks the operating system for something, as far as its name tells."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, socket.socket):
        return function.__name__ in SOCKET_CALLS
    return isinstance(owner, select.epoll | FileIO) or (owner is posix and function is not os.fspath)


tally = Tally()


@contextlib.contextmanager
def statements_of(services: Services) -> Iterator[list[str]]:
    """The statements that are executed meanwhile, without those that begin and end transactions."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(services.database.engine, "before_cursor_execute", note)
    yield sent
    event.remove(services.database.engine, "before_cursor_execute", note)


def cost(services: Services, units: int, run: Callable[[], object], prepare: Callable[[], object] = object) -> Cost:
    """The cost of each of so many units that a call of `run` works off, where `prepare` has left them. The first round
    only warms up."""
    for _ in range(2):
        prepare()
        before = tally.read()
        with statements_of(services) as sent:
            run()
        after = tally.read()
    return Cost(len(sent) / units, (after[1] - before[1]) / units, (after[0] - before[0]) / units)


class Client:
    """One connection to the server of this process, whose threads answer as those of a process of the API do."""

    def __init__(self, app: Flask, services: Services) -> None:
        self._cfg = Config()
        self._cfg.set("http_parser", "python")
        self._cfg.set("forwarded_allow_ips", "")
        read_once(self._cfg)
        self._app = app
        limits, poller = Limits.of(services.settings), make_poller()
        self._connections = Connections(poller, limits.held_bytes, lambda _: None)
        AnsweringThreads(poller, self._connections, limits, 1, self._respond).start()
        self._link, served = socket.socketpair()
        self._connection = Connection(self._cfg, served, ("127.0.0.1", 1), ("127.0.0.1", 2), limits)
        self._connections.add(self._connection)

    def _respond(self, connection: Connection, asked: Any) -> bool:
        return respond(connection, asked, self._app, self._cfg, last=False)

    def ask(self, sent: bytes) -> bytes:
        """The body of the answer, once the connection waits for its next request."""
        self._link.sendall(sent)
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._link.recv(1 << 20)
        head = received[:end].decode().lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0] or 0)
        while len(received) < end + 4 + length:
            received += self._link.recv(1 << 20)
        wait_for(lambda: self._connection.is_waiting, "the connection waits", pause=0.001)
        if not head.startswith("http/1.1 2"):
            raise CaseFailure(f"{head}: {received[end:]!r}")
        return bytes(received[end + 4 :])

    def cost(self, services: Services, count: int, make: Callable[[], bytes]) -> Cost:
        """The cost of one of so many requests."""
        return cost(services, count, lambda: [self.ask(make()) for _ in range(count)])


def request_costs(parts: Stack, services: Services, client: Client) -> Iterator[tuple[str, Cost]]:
    """A to D100, each with the webhook that the benchmark has."""
    shop = open_shop(parts, "Requests", webhook="http://127.0.0.1:9/hook")
    fill(parts, shop, CONTACTS)
    path = f"/v1/lists/{shop.list_id}/contacts"
    one_contact, page = (request("GET", f"{path}{rest}", shop.token) for rest in (f"/{CONTACTS // 2}", "?limit=1000"))
    yield "A. GET one contact", client.cost(services, 50, lambda: one_contact)
    yield "B. GET 1,000 contacts", client.cost(services, 3, lambda: page)
    numbers = itertools.count(CONTACTS)

    def new_contacts() -> bytes:
        body = {"contacts": [draft(next(numbers)) for _ in range(1000)]}
        return request("POST", path, shop.token, orjson.dumps(body))

    yield "C. POST 1,000 contacts", client.cost(services, 1, new_contacts)
    chosen = itertools.count()
    yield "D1. POST a send to 1", client.cost(services, 30, lambda: send_of(shop, chosen, 1))
    yield "D100. POST a send to 100", client.cost(services, 5, lambda: send_of(shop, chosen, 100))


def mail_costs(parts: Stack, services: Services, client: Client) -> Iterator[tuple[str, Cost]]:
    """E and E2: batches of the largest size, over one connection; and G: a mail alone, over the same."""
    shop = open_shop(parts, "Mails")
    firsts = itertools.count(0, PER_SEND)
    with without_keys(parts):
        yield "E. deliver a mail", cost_of_mails(services, client, shop, firsts, tracked=False)
        yield "G. deliver a mail alone", cost_of_mails(services, client, shop, firsts, tracked=False, mails=1)
    with without_keys(parts, "ed25519"):
        yield "E2. with DKIM and tracking", cost_of_mails(services, client, shop, firsts, tracked=True)


def cost_of_mails(
    services: Services, client: Client, shop: Shop, firsts: Iterator[int], *, tracked: bool, mails: int = MAILS
) -> Cost:
    """The cost of one of so many mails, from the claim to the outcome in the database."""

    def accept() -> None:
        for left in range(mails, 0, -PER_SEND):
            first = next(firsts)
            client.ask(send_request(shop, range(first, first + min(left, PER_SEND)), tracked=tracked))

    def deliver() -> None:
        sender_worker_of(services).batch_size.size = sender_worker.MAX_BATCH_SIZE
        with tally.here():
            draining.drain(services)

    return cost(services, mails, deliver, accept)


def event_cost(parts: Stack, services: Services, port: int) -> tuple[str, Cost]:
    """F: batches of 1,000."""
    shop = open_shop(parts, "Events", webhook=f"http://127.0.0.1:{port}/in")

    def deliver() -> None:
        with tally.here():
            dispatch.dispatch_due(services)

    return "F. an event to a webhook", cost(services, EVENTS, deliver, lambda: load_events(parts, shop, EVENTS))


def wait_until_idle(_seconds: float) -> None:
    """Waits, uncounted, until all threads that are counted wait: the drain then collects all that was sent."""
    profile, seen = sys.getprofile(), deque([tally.read()], IDLE_LOOKS)
    sys.setprofile(None)
    while len(seen) < IDLE_LOOKS or len(set(seen)) > 1:
        time.sleep(0.1)
        seen.append(tally.read())
    sys.setprofile(profile)


@contextlib.contextmanager
def without_deadlines() -> Iterator[None]:
    """No limit of time decides which way the code takes, each look at a queue is a full one, and no garbage is
    collected."""
    limits = [
        (dispatcher, "STALL_TIMEOUT"),
        (draining, "POLL_INTERVAL"),
        (connections, "QUICK_REPLY"),
        (connections, "STEADY_REPLY"),
        (returning, "LOOK_INTERVAL"),
        *((draining, name) for name in ("TIME_SLICE", "MAX_WAIT", "WRITE_AFTER")),
        *((dispatch, name) for name in ("JOB_SECONDS", "WEBHOOK_SECONDS", "POLL_SECONDS")),
    ]
    with contextlib.ExitStack() as kept:
        for module, name in limits:
            kept.enter_context(patch.object(module, name, AGES))
        kept.enter_context(patch.object(FullLooks, "is_due", lambda _: True))
        kept.enter_context(
            patch.object(dispatcher, "time", SimpleNamespace(sleep=wait_until_idle, monotonic=time.monotonic))
        )
        gc.disable()
        kept.callback(gc.enable)
        yield


@contextlib.contextmanager
def counting(*, postgresql: bool, **settings: str) -> Iterator[Stack]:
    """An installation for whose code in this process, which is imported inside, no time matters. Threads that begin
    inside are counted."""
    with stack(postgresql=postgresql, **settings) as parts, contextlib.ExitStack() as kept:
        kept.enter_context(without_deadlines())
        log = kept.enter_context((parts.folder / "cost.log").open("w"))
        kept.enter_context(contextlib.redirect_stderr(log))
        threading.setprofile(tally.begin)
        yield parts


def measure() -> Iterator[tuple[str, Cost]]:
    """Case -> its cost."""
    sink, receiver = free_port(), free_port()
    settings = {
        "RATE_LIMIT": "1000000/hour",
        "EMAIL_TRANSPORT_URL": f"smtp://127.0.0.1:{sink}?messages=1000000",
        "SEND_CONNECTIONS": "1",
        "WEBHOOK_SPACING": "0",
    }
    with counting(postgresql=False, **settings) as parts, contextlib.ExitStack() as kept:
        for name, port in (("sink", sink), ("receiver", receiver)):
            kept.enter_context(running(name, ["-m", f"bench.{name}", str(port)], {}, parts.folder))
            wait_for(partial(listens, port), f"{name} listens")
        app = create_app(parts.services.settings)
        services: Services = app.extensions[EXTENSION]
        client = Client(app, services)
        yield from request_costs(parts, services, client)
        yield from mail_costs(parts, services, client)
        yield event_cost(parts, services, receiver)


def measure_requests(floor: str | None) -> Iterator[tuple[str, Cost]]:
    """The cases of requests with PostgreSQL, answered by the service or by a module of `bench.floors`. A floor's
    statements are not seen."""
    with counting(postgresql=True, RATE_LIMIT="1000000/hour") as parts:
        os.environ.update(parts.environment)
        app = importlib.import_module(f"bench.floors.{floor}").application if floor else create_app()
        services: Services = parts.services if floor else app.extensions[EXTENSION]
        yield from request_costs(parts, services, Client(app, services))


def measure_promises() -> Iterator[tuple[str, Cost]]:
    """E, by the floor that keeps the promises of the service. Its statements are not seen."""
    sink = free_port()
    with counting(postgresql=True) as parts, running("sink", ["-m", "bench.sink", str(sink)], {}, parts.folder):
        wait_for(partial(listens, sink), "the sink listens")
        url, firsts = plain_url(parts.database_url), itertools.count(1, MAILS)

        def deliver() -> None:
            with (
                patch.object(sys, "stdin", io.StringIO("\n")),
                contextlib.redirect_stdout(io.StringIO()),
                tally.here(),
            ):
                promises.main(url, sink)

        yield (
            "E. deliver a mail",
            cost(parts.services, MAILS, deliver, lambda: fill_promises(url, next(firsts), MAILS)),
        )


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost")
    parser.add_argument("--postgresql", action="store_true", help="the requests alone, with PostgreSQL")
    parser.add_argument("--floor", choices=["writing", "duties", "promises"], help="that of a floor")
    options = parser.parse_args()
    if options.floor == "promises":
        cases = measure_promises()
    else:
        cases = measure_requests(options.floor) if options.postgresql or options.floor else measure()
    print(f"| case | SQL statements | system calls | calls, Python {sys.version_info.major}.{sys.version_info.minor} |")
    for case, cost in cases:
        print(f"| {case} | {' | '.join(map(rounded, cost))} |", flush=True)


def rounded(number: float) -> str:
    """At least three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    main()
