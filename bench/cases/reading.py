"""Cases A and B: reading one contact, and a page of 1,000."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson

from bench.contacts import draft, fill, open_shop
from bench.load import fetch, rate, request
from bench.options import Options
from bench.processes import Failed, all_busy
from bench.stack import AS_IN_ITS_GUIDES, Server, api, floor_api, peer_api, stack
from bench.turns import Goal, Measure, Row, in_turns

CONTACTS = 10_000
PAGE = "?limit=1000"


def run(options: Options) -> list[Row]:
    """The rows of A and B."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        fill(parts, shop, CONTACTS)
        makers = [api, floor_api, peer_api] if options.postgresql else [api]
        servers = [kept.enter_context(make(parts)) for make in makers]
        base = f"/v1/lists/{shop.list_id}/contacts"
        one = request("GET", f"{base}/{CONTACTS // 2}", shop.token)
        page = request("GET", base + PAGE, shop.token)
        _check_one(servers, one, CONTACTS // 2)
        _check_page(servers, page)
        singles, pages = options.amount(3000, 200), options.amount(100, 10)
        rows = [
            in_turns(
                "A. GET one contact",
                "requests/s",
                Goal(0.70, 1.5),
                options.rounds,
                **measures_of(servers, one, singles),
            )
        ]
        if options.postgresql:
            pair = [servers[0], kept.enter_context(floor_api(parts, "duties"))]
            _check_one(pair, one, CONTACTS // 2)
            duties = measures_of(pair, one, singles)
            rows.append(in_turns("A. the floor with its duties", "requests/s", Goal(0.80), options.rounds, **duties))
        measures = measures_of(servers, page, pages)
        rows.append(in_turns("B. GET 1,000 contacts", "requests/s", Goal(0.75, 3.5), options.rounds, **measures))
        if options.postgresql:
            pair = [servers[0], kept.enter_context(peer_api(parts, AS_IN_ITS_GUIDES))]
            _check_one(pair, one, CONTACTS // 2)
            _check_page(pair, page)
            for case, sent, count in (("A", one, singles), ("B", page, pages)):
                measures = measures_of(pair, sent, count)
                rows.append(
                    in_turns(f"{case}. the peer as in its guides", "requests/s", Goal(), options.rounds, **measures)
                )
        return rows


def measures_of(servers: list[Server], one: bytes, count: int) -> dict[str, Measure]:
    """Rounds of the same request to each server; every answer must equal the one that was checked."""

    def measure(server: Server) -> Measure:
        _, expected = fetch(server.port, one)

        def right(status: int, body: bytes) -> bool:
            return status == 200 and body == expected

        def round_of_requests() -> float:
            with all_busy(server.workers, server.name):
                return rate(server.port, [one] * count, right, life=count // 40)

        return round_of_requests

    return {server.name: measure(server) for server in servers}


def _check_one(servers: list[Server], one: bytes, contact_id: int) -> None:
    """Raises `Failed` unless all servers return the contact that was loaded, as the same object."""
    answers = [_json(server, one) for server in servers]
    expected = draft(contact_id - 1)
    if any(answers[0][name] != value for name, value in expected.items()):
        raise Failed(f"wrong contact: {answers[0]}")
    if any(answer != answers[0] for answer in answers):
        raise Failed(f"the servers return different objects: {answers}")


def _check_page(servers: list[Server], page: bytes) -> None:
    answers = [_json(server, page) for server in servers]
    emails = [contact["email"] for contact in answers[0]["_embedded"]["contacts"]]
    if emails != [draft(number)["email"] for number in range(CONTACTS - 1, CONTACTS - 1001, -1)]:
        raise Failed("wrong page")
    if any(answer["_embedded"] != answers[0]["_embedded"] for answer in answers):
        raise Failed("the servers return different objects")


def _json(server: Server, one: bytes) -> dict[str, Any]:
    status, body = fetch(server.port, one)
    if status != 200:
        raise Failed(f"status {status}: {body[:500]!r}")
    found: dict[str, Any] = orjson.loads(body)
    return found
