"""Cases C, D1 and D100: a request that creates 1,000 contacts, and sends to 1 and to 100 recipients."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import orjson
from sqlalchemy import text

from bench import post_office
from bench.contacts import Shop, draft, fill, open_shop
from bench.load import fetch, rate, request
from bench.options import Options
from bench.processes import CaseFailure, all_busy
from bench.stack import GUIDES_PEER, WEB_PROCESSES, Server, Stack, api, floor_api, peer_api, stack
from bench.turns import Goal, Measure, Row, in_turns

CONTACTS = 10_000
BULK = 1000
REQUESTS = 16
"""Requests of a round of C."""
OUTBOX = ("events", "trigger_firings")
QUEUE = ("send_queue", "recipient_steps", "recipients", "sends")

Meter = Callable[[], AbstractContextManager[None]]

SEND = {
    "type": "email",
    "group_name": "Orders",
    "subject": "Your order %%order%%",
    "from_name": "Bench",
    "from_address": "hello@bench.example",
    "body_text": "Hello %%first_name%% %%last_name%%,\n\nyour order %%order%% of %%total%% is on its way:\n%%link%%\n\n"
    "Thank you\n",
    "body_html": "<html><body><p>Hello %%first_name%% %%last_name%%,</p><p>your order <b>%%order%%</b> of %%total%% is "
    '<a href="%%link%%">on its way</a>.</p><p>Thank you</p></body></html>',
}


def creating(options: Options) -> list[Row]:
    """The rows of C. All contacts are new."""
    numbers = itertools.count(CONTACTS)
    count = options.amount(REQUESTS, 8)
    with installation(options) as (parts, shop, servers), contextlib.ExitStack() as kept:

        def measures_of(competitors: list[Server]) -> dict[str, Measure]:
            return {server.name: creations(parts, shop, server, numbers, count) for server in competitors}

        peers = [kept.enter_context(peer_api(parts))] if options.postgresql else []
        measures = measures_of([*servers, *peers])
        rows = [in_turns("C. POST 1,000 contacts", "requests/s", Goal(0.85, 4), options.rounds, **measures)]
        if options.postgresql:
            measures = measures_of([servers[0], kept.enter_context(peer_api(parts, GUIDES_PEER))])
            rows.append(in_turns("C. the peer as in its guides", "requests/s", Goal(), options.rounds, **measures))
        return rows


@contextlib.contextmanager
def installation(options: Options, *, floor: bool = True) -> Iterator[tuple[Stack, Shop, list[Server]]]:
    """An account with a full list and a webhook, and the servers of the service and of the floor."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts, webhook="http://127.0.0.1:9/hook")
        fill(parts, shop, CONTACTS)
        servers = [kept.enter_context(api(parts))]
        if floor and options.postgresql:
            servers.append(kept.enter_context(floor_api(parts, "writing")))
        yield parts, shop, servers


def creations(
    parts: Stack,
    shop: Shop,
    server: Server,
    numbers: Iterator[int],
    count: int,
    *,
    meter: Meter = contextlib.nullcontext,
) -> Measure:
    """Rounds of requests with 1,000 contacts each; `meter` is entered while they are answered."""

    def round_of_requests() -> float:
        _empty(parts, OUTBOX)
        before = _count(parts, "contacts")
        bodies = [{"contacts": [draft(next(numbers)) for _ in range(BULK)]} for _ in range(count)]
        path = f"/v1/lists/{shop.list_id}/contacts"
        requests = [request("POST", path, shop.token, orjson.dumps(body)) for body in bodies]
        with all_busy(server.workers, server.name), meter():
            speed = rate(server.port, requests, lambda status, _: status == 204, life=2)
        written = [_count(parts, "contacts") - before, *(_count(parts, table) for table in OUTBOX)]
        if written != [count * BULK] * 3:
            raise CaseFailure(f"{server.name}: rows are missing: {written}")
        _check_last(parts, shop, bodies[-1]["contacts"][-1])
        return speed

    return round_of_requests


def _check_last(parts: Stack, shop: Shop, written: dict[str, Any]) -> None:
    """Raises `CaseFailure` unless the contact is in the table as the request has it, with its event."""
    chosen = 'SELECT id, mobile, "values" FROM contacts WHERE list_id = :list_id AND identifier = :email'
    with parts.services.database.read() as session:
        contact = session.execute(text(chosen), {"list_id": shop.list_id, "email": written["email"]}).one()
        like = f'%"id":{contact.id},"list_id":{shop.list_id},%'
        events = session.execute(text("SELECT payload FROM events WHERE payload LIKE :like"), {"like": like}).all()
    values = contact[2] if isinstance(contact[2], dict) else orjson.loads(contact[2])
    if {"email": written["email"], "mobile": contact.mobile, **values} != written or len(events) != 1:
        raise CaseFailure(f"wrong contact: {contact}, {events}")


def sending(options: Options) -> list[Row]:
    """The rows of D1 and D100. No worker runs, so that accepting takes all of the time."""
    with installation(options) as (parts, shop, servers):
        return _sending(options, parts, shop, servers)


def _sending(options: Options, parts: Stack, shop: Shop, servers: list[Server]) -> list[Row]:
    numbers = itertools.count()
    fetch(servers[0].port, send_of(shop, numbers, 1))  # creates the group
    cases = [
        ("D1. POST a send to 1", 1, options.amount(1000, 100), Goal(0.75)),
        ("D100. POST a send to 100", 100, options.amount(100, 40), Goal(0.95)),
    ]
    environment = post_office.prepare(parts) if options.postgresql else {}
    rows = []
    for case, recipients, count, goal in cases:
        make = partial(send_of, shop, numbers, recipients)
        measures = {server.name: sends_of(parts, server, make, recipients, count) for server in servers}
        if options.postgresql:
            measures["peer"] = _post_office(environment, recipients, count)
        rows.append(in_turns(case, "requests/s", goal, options.rounds, **measures))
        if options.postgresql and recipients == 1:
            rows.append(_with_duties(options, parts, servers[0], make, count))
    return rows


def _with_duties(options: Options, parts: Stack, server: Server, make: Callable[[], bytes], count: int) -> Row:
    """D1 against a floor that looks up what a send refers to."""
    with floor_api(parts, "duties") as floor:
        measures = {
            server_or_floor.name: sends_of(parts, server_or_floor, make, 1, count)
            for server_or_floor in (server, floor)
        }
        return in_turns("D1. the floor with its duties", "requests/s", Goal(0.90), options.rounds, **measures)


def send_of(shop: Shop, numbers: Iterator[int], recipients: int) -> bytes:
    """A request that sends to the next so many contacts of the list."""
    chosen = [_recipient(next(numbers) % CONTACTS) for _ in range(recipients)]
    body = {**SEND, "list_id": shop.list_id, "recipients": chosen}
    return request("POST", "/v1/transactional-sends", shop.token, orjson.dumps(body))


def _recipient(number: int) -> dict[str, Any]:
    person = draft(number)
    return {
        "email": person["email"],
        "first_name": person["first_name"],
        "last_name": person["last_name"],
        "order": f"A-{number:08d}",
        "total": f"{number % 500}.50",
        "link": f"https://shop.bench.example/orders/{number}",
    }


def sends_of(
    parts: Stack,
    server: Server,
    make: Callable[[], bytes],
    recipients: int,
    count: int,
    *,
    meter: Meter = contextlib.nullcontext,
) -> Measure:
    """Rounds of requests that `make` returns; `meter` is entered while they are answered."""

    def round_of_requests() -> float:
        _empty(parts, QUEUE)
        requests = [make() for _ in range(count)]
        accepted: list[str] = []
        with all_busy(server.workers, server.name), meter():
            speed = rate(server.port, requests, _collecting(accepted))
        _check_queue(parts, server, accepted, recipients * count)
        return speed

    return round_of_requests


def _collecting(accepted: list[str]) -> Callable[[int, bytes], bool]:
    """Collects the uuids of the recipients from the answers."""

    def check(status: int, body: bytes) -> bool:
        if status == 202:
            accepted.extend(recipient["uuid"] for recipient in orjson.loads(body)["_embedded"]["recipients"])
        return status == 202

    return check


def _check_queue(parts: Stack, server: Server, accepted: list[str], expected: int) -> None:
    """Raises `CaseFailure` unless exactly the accepted recipients are in the queue, with their contacts and values."""
    complete = (
        "SELECT uuid FROM recipients JOIN send_queue ON recipient_id = id "
        "WHERE send_queue.state = 'queued' AND contact_id IS NOT NULL AND \"values\" IS NOT NULL"
    )
    with parts.services.database.read() as session:
        queued = session.execute(text(complete)).scalars().all()
    if len(accepted) != expected or sorted(queued) != sorted(accepted):
        raise CaseFailure(f"{server.name}: {expected} recipients, {len(accepted)} accepted, {len(queued)} in the queue")


def _post_office(environment: Mapping[str, str], recipients: int, count: int) -> Measure:
    """The peer in as many processes as the service has; it is called by `send` or `send_many` instead of requests."""
    share = -(-count // WEB_PROCESSES)

    def round_of_calls() -> float:
        before = post_office.mails(environment)
        seconds = post_office.seconds_of(environment, ["send", str(share), str(recipients)], WEB_PROCESSES)
        # Each process sends one more mail before the clock starts.
        if post_office.mails(environment) - before != WEB_PROCESSES * (share * recipients + 1):
            raise CaseFailure("post_office lost mails")
        return WEB_PROCESSES * share / seconds

    return round_of_calls


def _empty(parts: Stack, tables: Sequence[str]) -> None:
    """Every round starts with these tables empty."""
    with parts.services.database.write() as transaction:
        if parts.is_postgresql:
            transaction.execute(text(f"TRUNCATE {', '.join(tables)} CASCADE"))
        else:
            for table in tables:
                transaction.execute(text(f"DELETE FROM {table}"))


def _count(parts: Stack, table: str) -> int:
    with parts.services.database.read() as session:
        return int(session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())
