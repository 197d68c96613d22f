"""Cases A and B: reading one contact, and a page of 1,000."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import orjson

from bench.contacts import draft, fill, open_shop
from bench.load import fetch, rate, request
from bench.options import Options
from bench.processes import CaseFailure, all_busy
from bench.stack import GUIDES_PEER, Server, Stack, api, floor_api, peer_api, stack
from bench.turns import Goal, Measure, Row, in_turns

CONTACTS = 10_000
PAGE = "?limit=1000"


def run(options: Options) -> list[Row]:
    """The rows of A and B."""
    with stack(postgresql=options.postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        fill(parts, shop, CONTACTS)
        makers: list[Callable[[Stack], AbstractContextManager[Server]]] = [api]
        if options.postgresql:
            makers += [floor_api, peer_api]
        servers = [kept.enter_context(make(parts)) for make in makers]
        base = f"/v1/lists/{shop.list_id}/contacts"
        encoded_request = request("GET", f"{base}/{CONTACTS // 2}", shop.token)
        page = request("GET", base + PAGE, shop.token)
        _check_one(servers, encoded_request, CONTACTS // 2)
        _check_page(servers, page)
        singles, pages = options.amount(3000, 200), options.amount(100, 10)
        rows = [
            in_turns(
                "A. GET one contact",
                "requests/s",
                Goal(0.70, 1.5),
                options.rounds,
                **measures_of(servers, encoded_request, singles),
            )
        ]
        if options.postgresql:
            pair = [servers[0], kept.enter_context(floor_api(parts, "duties"))]
            _check_one(pair, encoded_request, CONTACTS // 2)
            duties = measures_of(pair, encoded_request, singles)
            rows.append(in_turns("A. the floor with its duties", "requests/s", Goal(0.80), options.rounds, **duties))
        measures = measures_of(servers, page, pages)
        rows.append(in_turns("B. GET 1,000 contacts", "requests/s", Goal(0.75, 3.5), options.rounds, **measures))
        if options.postgresql:
            pair = [servers[0], kept.enter_context(peer_api(parts, GUIDES_PEER))]
            _check_one(pair, encoded_request, CONTACTS // 2)
            _check_page(pair, page)
            for case, sent, count in (("A", encoded_request, singles), ("B", page, pages)):
                measures = measures_of(pair, sent, count)
                rows.append(
                    in_turns(f"{case}. the peer as in its guides", "requests/s", Goal(), options.rounds, **measures)
                )
        return rows


def measures_of(servers: list[Server], encoded_request: bytes, count: int) -> dict[str, Measure]:
    """Rounds of the same request to each server; every answer must equal the one that was checked."""

    def measure(server: Server) -> Measure:
        _, expected = fetch(server.port, encoded_request)

        def right(status: int, body: bytes) -> bool:
            return status == 200 and body == expected

        def round_of_requests() -> float:
            with all_busy(server.workers, server.name):
                return rate(server.port, [encoded_request] * count, right, life=count // 40)

        return round_of_requests

    return {server.name: measure(server) for server in servers}


def _check_one(servers: list[Server], encoded_request: bytes, contact_id: int) -> None:
    """Raises `CaseFailure` unless all servers return the contact that was loaded, as the same object."""
    answers = [_json(server, encoded_request) for server in servers]
    expected = draft(contact_id - 1)
    if any(answers[0][name] != value for name, value in expected.items()):
        raise CaseFailure(f"wrong contact: {answers[0]}")
    if any(answer != answers[0] for answer in answers):
        raise CaseFailure(f"the servers return different objects: {answers}")


def _check_page(servers: list[Server], page: bytes) -> None:
    answers = [_json(server, page) for server in servers]
    emails = [contact["email"] for contact in answers[0]["_embedded"]["contacts"]]
    if emails != [draft(number)["email"] for number in range(CONTACTS - 1, CONTACTS - 1001, -1)]:
        raise CaseFailure("wrong page")
    if any(answer["_embedded"] != answers[0]["_embedded"] for answer in answers):
        raise CaseFailure("the servers return different objects")


def _json(server: Server, encoded_request: bytes) -> dict[str, Any]:
    status, body = fetch(server.port, encoded_request)
    if status != 200:
        raise CaseFailure(f"status {status}: {body[:500]!r}")
    document: dict[str, Any] = orjson.loads(body)
    return document
