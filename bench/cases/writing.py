"""Cases C, D1 and D100: creating a thousand contacts, and accepting sends to one and to a hundred recipients."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from sqlalchemy import text

from app.db.field_indexes import FieldIndex, create_index, drop_index
from bench import post_office
from bench.contacts import Shop, draft, fill, open_shop
from bench.load import fetch, rate, request
from bench.options import Options
from bench.processes import Failed, all_busy
from bench.stack import AS_IN_ITS_GUIDES, WEB_PROCESSES, Server, Stack, api, floor_api, peer_api, stack
from bench.turns import Goal, Measure, Row, in_turns

CONTACTS = 10_000
BULK = 1000
OUTBOX = ("events", "trigger_firings")
FIELD_INDEXES = (FieldIndex("points", "number"), FieldIndex("born", "date"))
QUEUE = ("send_queue", "recipients", "sends")

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
    """C. Every request brings people who are not there yet."""
    numbers = itertools.count(CONTACTS)
    with _shop(options) as (parts, shop, servers), contextlib.ExitStack() as kept:

        def creations(competitors: list[Server]) -> dict[str, Measure]:
            count = options.amount(16, 8)
            return {server.name: _creations(parts, shop, server, numbers, count) for server in competitors}

        peers = [kept.enter_context(peer_api(parts))] if options.postgresql else []
        measures = creations([*servers, *peers])
        rows = [in_turns("C. POST 1,000 contacts", "requests/s", Goal(0.60, 4), options.rounds, **measures)]
        if options.postgresql:
            measures = creations([servers[0], kept.enter_context(peer_api(parts, AS_IN_ITS_GUIDES))])
            rows.append(in_turns("C. the peer as in its guides", "requests/s", Goal(), options.rounds, **measures))
        alone = creations(servers[:1])["ours"]
        return [*rows, *(_indexed(options, parts, alone, count) for count in range(1, len(FIELD_INDEXES) + 1))]


def _indexed(options: Options, parts: Stack, creations: Measure, count: int) -> Row:
    """C with indexes on list fields; `floor` is the same without them."""
    ours, floor = (partial(_beside_indexes, parts, chosen, creations) for chosen in (FIELD_INDEXES[:count], ()))
    name = f"C. with {count} indexed field{'s'[: count - 1]}"
    return in_turns(name, "requests/s", Goal(0.95), options.rounds, ours=ours, floor=floor)


def _beside_indexes(parts: Stack, indexes: Sequence[FieldIndex], creations: Measure) -> float:
    for index in indexes:
        create_index(parts.database_url, index)
    try:
        return creations()
    finally:
        for index in indexes:
            drop_index(parts.database_url, index.name)


@contextlib.contextmanager
def _shop(options: Options) -> Iterator[tuple[Stack, Shop, list[Server]]]:
    """An account with a filled list and a webhook; the service and the floor before it."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts, webhook="http://127.0.0.1:9/hook")
        fill(parts, shop, CONTACTS)
        servers = [kept.enter_context(api(parts))]
        if options.postgresql:
            servers.append(kept.enter_context(floor_api(parts, "writing")))
        yield parts, shop, servers


def _creations(parts: Stack, shop: Shop, server: Server, numbers: Iterator[int], count: int) -> Measure:
    def round_of_requests() -> float:
        _empty(parts, OUTBOX)
        before = _count(parts, "contacts")
        bodies = [{"contacts": [draft(next(numbers)) for _ in range(BULK)]} for _ in range(count)]
        path = f"/v1/lists/{shop.list_id}/contacts"
        requests = [request("POST", path, shop.token, orjson.dumps(body)) for body in bodies]
        with all_busy(server.workers, server.name):
            speed = rate(server.port, requests, lambda status, _: status == 204, life=2)
        written = [_count(parts, "contacts") - before, *(_count(parts, table) for table in OUTBOX)]
        if written != [count * BULK] * 3:
            raise Failed(f"{server.name}: rows are missing: {written}")
        _check_last(parts, shop, bodies[-1]["contacts"][-1])
        return speed

    return round_of_requests


def _check_last(parts: Stack, shop: Shop, written: dict[str, Any]) -> None:
    """The contact stands in the table as it was given, with its event."""
    chosen = 'SELECT id, mobile, "values" FROM contacts WHERE list_id = :list_id AND identifier = :email'
    with parts.services.database.read() as session:
        found = session.execute(text(chosen), {"list_id": shop.list_id, "email": written["email"]}).one()
        like = f'%"id":{found.id},"list_id":{shop.list_id},%'
        events = session.execute(text("SELECT payload FROM events WHERE payload LIKE :like"), {"like": like}).all()
    values = found[2] if isinstance(found[2], dict) else orjson.loads(found[2])
    if {"email": written["email"], "mobile": found.mobile, **values} != written or len(events) != 1:
        raise Failed(f"this is not the contact: {found}, {events}")


def sending(options: Options) -> list[Row]:
    """D1 and D100. No worker runs, so that all the time goes to accepting."""
    with _shop(options) as (parts, shop, servers):
        return _sending(options, parts, shop, servers)


def _sending(options: Options, parts: Stack, shop: Shop, servers: list[Server]) -> list[Row]:
    numbers = itertools.count()
    fetch(servers[0].port, send_of(shop, numbers, 1))  # creates the group
    cases = [
        ("D1. POST a send to 1", 1, options.amount(1000, 100), Goal(0.75)),
        ("D100. POST a send to 100", 100, options.amount(100, 40), Goal(0.60)),
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
    """D1 against a floor that looks at what a send refers to."""
    with floor_api(parts, "duties") as floor:
        measures = {one.name: sends_of(parts, one, make, 1, count) for one in (server, floor)}
        return in_turns("D1. the floor with its duties", "requests/s", Goal(0.75), options.rounds, **measures)


def send_of(shop: Shop, numbers: Iterator[int], recipients: int) -> bytes:
    """A request to the next so many contacts of the list."""
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


def sends_of(parts: Stack, server: Server, make: Callable[[], bytes], recipients: int, count: int) -> Measure:
    def round_of_requests() -> float:
        _empty(parts, QUEUE)
        requests = [make() for _ in range(count)]
        promised: list[str] = []
        with all_busy(server.workers, server.name):
            speed = rate(server.port, requests, _kept(promised))
        _check_promises(parts, server, promised, recipients * count)
        return speed

    return round_of_requests


def _kept(promised: list[str]) -> Callable[[int, bytes], bool]:
    """Notes the recipients that the answers name."""

    def check(status: int, body: bytes) -> bool:
        if status == 202:
            promised.extend(one["uuid"] for one in orjson.loads(body)["_embedded"]["recipients"])
        return status == 202

    return check


def _check_promises(parts: Stack, server: Server, promised: list[str], wanted: int) -> None:
    """Exactly the accepted recipients are in the queue, with their contacts and values."""
    whole = (
        "SELECT uuid FROM recipients JOIN send_queue ON recipient_id = id "
        "WHERE send_queue.state = 'queued' AND contact_id IS NOT NULL AND \"values\" IS NOT NULL"
    )
    with parts.services.database.read() as session:
        queued = session.execute(text(whole)).scalars().all()
    if len(promised) != wanted or sorted(queued) != sorted(promised):
        raise Failed(f"{server.name}: {wanted} recipients, {len(promised)} promised, {len(queued)} in the queue")


def _post_office(environment: Mapping[str, str], recipients: int, count: int) -> Measure:
    """The peer in as many processes as the service has; a request is a call of `send` or `send_many`."""
    share = -(-count // WEB_PROCESSES)

    def round_of_calls() -> float:
        before = post_office.mails(environment)
        seconds = post_office.seconds_of(environment, ["send", str(share), str(recipients)], WEB_PROCESSES)
        # Each process sends one more before it starts.
        if post_office.mails(environment) - before != WEB_PROCESSES * (share * recipients + 1):
            raise Failed("post_office has lost mails")
        return WEB_PROCESSES * share / seconds

    return round_of_calls


def _empty(parts: Stack, tables: Sequence[str]) -> None:
    """Every round finds the same tables."""
    with parts.services.database.write() as transaction:
        if parts.is_postgresql:
            transaction.execute(text(f"TRUNCATE {', '.join(tables)} CASCADE"))
        else:
            for table in tables:
                transaction.execute(text(f"DELETE FROM {table}"))


def _count(parts: Stack, table: str) -> int:
    with parts.services.database.read() as session:
        return int(session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())
