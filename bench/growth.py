"""The cost of every filter and page with few rows and with many: `python -m bench.growth` (docs/benchmark.md#growth).

Two installations are measured in turn: one with 10,000 contacts and as many recipients of a message, and one with many
more. A line has the time of one request to each of them, over a new connection, and the ratio of the two. What a filter
asks for exists often (at least every third row has it), rarely (ten rows have it, in either installation) or never.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson
from sqlalchemy import select

from app.db.models import Contact
from app.query.conditions import Query
from app.query.cursors import CursorScope, Position
from app.query.links import page_link
from bench.contacts import Shop, fill, open_shop
from bench.filters import (
    LINES,
    RECIPIENTS,
    SENT,
    SUPPRESSIONS,
    Line,
    fill_labels,
    prepare_contacts,
    prepare_message,
    sent_columns,
)
from bench.large import accepted_recipient, fill_contacts, fill_recipients, fill_suppressions
from bench.load import fetch, request
from bench.processes import CaseFailure
from bench.stack import Server, Stack, api, stack
from bench.watching import DUE_ENTRIES, compare, watched

FEW_ROWS = 10_000
MAX_SLOWDOWN = 1.3


@dataclass(frozen=True, slots=True)
class Installation:
    """One of the two: a server, and the path of each collection that lines name."""

    shop: Shop
    server: Server
    paths: dict[str, str]

    def get(self, line: Line) -> tuple[float, dict[str, object]]:
        """The milliseconds that the request takes, and the answer."""
        encoded_request = request("GET", self.paths[line.collection] + line.query, self.shop.token)
        began = time.perf_counter()
        status, body = fetch(self.server.port, encoded_request)
        elapsed = (time.perf_counter() - began) * 1000
        if status != 200:
            raise CaseFailure(f"{line.name}: {status} {body[:300]!r}")
        return elapsed, orjson.loads(body)


@contextlib.contextmanager
def installation(
    count: int, *, postgresql: bool, contacts: bool = True, suppressions: bool = False
) -> Iterator[Installation]:
    """An installation with so many contacts and, on PostgreSQL, as many recipients; with recipients alone; or with
    suppressions alone."""
    with stack(postgresql=postgresql) as parts, contextlib.ExitStack() as kept:
        shop = open_shop(parts)
        server = kept.enter_context(api(parts))
        paths = _fill_contacts(parts, shop, count) if contacts else {}
        if suppressions:
            fill_suppressions(parts, shop, count)
            paths["suppressions"] = "/v1/suppressions"
        elif postgresql:
            paths["sent"] = f"/v1/messages/{_fill_sent(parts, shop, server, count)}/sent-contacts"
            paths["recipients"] = "/v1/transactional-sends"
        yield Installation(shop, server, paths)


def _fill_contacts(parts: Stack, shop: Shop, count: int) -> dict[str, str]:
    """Adds contacts; returns the paths of the collections with them."""
    if parts.is_postgresql:
        fill_contacts(parts, shop, count)
    else:
        fill(parts, shop, count, first=1)
    prepare_contacts(parts, shop, count)
    path = f"/v1/lists/{shop.list_id}/contacts"
    return {"contacts": path, "behind": _link_behind(parts, shop, path, count * 9 // 10)}


def _link_behind(parts: Stack, shop: Shop, contacts: str, offset: int) -> str:
    """The link to the page after so many contacts, as a client has it that followed the links up to there. The API is
    not asked: it finds a page by its offset alone in a time that grows with the offset."""
    edge = select(Contact.creation_time, Contact.id).where(Contact.list_id == shop.list_id)
    in_order = edge.order_by(Contact.creation_time.desc(), Contact.id.desc())
    with parts.services.database.read() as session:
        item = session.execute(in_order.limit(1).offset(offset - 1)).one()
    cursors = CursorScope(parts.services.settings.secret_keys, shop.account_id, contacts)
    return page_link(contacts, Query(pairs=(("limit", "100"),), cursors=cursors), offset, Position(tuple(item)))


def _fill_sent(parts: Stack, shop: Shop, server: Server, count: int) -> int:
    """Adds recipients of a message straight into the database; returns the id of the message."""
    template = accepted_recipient(parts, shop, server)
    message_id = prepare_message(parts, shop)
    fill_recipients(parts, template, count, sent_columns(shop, message_id, count))
    fill_labels(parts, count)
    return message_id


def measure(small: Installation, large: Installation, line: Line, rounds: int) -> tuple[float, float]:
    """The least time of each, which other work on the machine disturbs least. Raises `CaseFailure` where one of them
    finds another number of rows than the line expects."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for at, milliseconds in zip((small, large), times, strict=True):
            elapsed, answer = at.get(line)
            milliseconds.append(elapsed)
            if line.matches is not None and answer["size"] != line.matches:
                raise CaseFailure(f"{line.name}: {answer['size']} rows instead of {line.matches}")
    return min(times[0]), min(times[1])


def table(small: Installation, large: Installation, lines: Sequence[Line], rounds: int, count: int) -> list[str]:
    """Prints each line when it is measured; returns the names of those that grow although they are bounded."""
    print(f"| {'request':58} | {FEW_ROWS:>10,} | {count:>10,} | ratio |")
    print(f"|{'-' * 60}|{'-' * 11}:|{'-' * 11}:|------:|")
    slow = []
    for line in lines:
        few, many = measure(small, large, line, rounds)
        ratio = many / few
        if ratio > MAX_SLOWDOWN and line.bounded:
            slow.append(line.name)
        print(f"| {line.name:58} | {few:7.1f} ms | {many:7.1f} ms | {ratio:5.2f} |", flush=True)
    return slow


def main(arguments: list[str]) -> int:
    """1 if a bounded line takes more than 1.3 times as long with many rows."""
    given = parse(arguments)
    if given.watching:
        return _watch(given)
    contact_lines, recipient_lines = () if given.recipients else LINES, () if given.sqlite else (*SENT, *RECIPIENTS)
    every_line = SUPPRESSIONS if given.suppressions else (*contact_lines, *recipient_lines)
    lines = [line for line in every_line if given.only in line.name]
    contacts = not (given.recipients or given.suppressions)
    with contextlib.ExitStack() as kept:
        small, large = (
            kept.enter_context(
                installation(count, postgresql=not given.sqlite, contacts=contacts, suppressions=given.suppressions)
            )
            for count in (FEW_ROWS, given.rows)
        )
        slow = table(small, large, lines, given.rounds, given.rows)
    print(f"more than {MAX_SLOWDOWN} times: {', '.join(slow)}" if slow else "no filter grows with the table")
    return bool(slow)


def _watch(given: argparse.Namespace) -> int:
    with contextlib.ExitStack() as kept:
        small, large = (
            kept.enter_context(watched(count, due, postgresql=not given.sqlite))
            for count, due in ((FEW_ROWS, DUE_ENTRIES), (given.rows, given.rows if given.due else DUE_ENTRIES))
        )
        slow = compare(small, large, given.rounds, (FEW_ROWS, given.rows), MAX_SLOWDOWN)
    print(f"more than {MAX_SLOWDOWN} times: {', '.join(slow)}" if slow else "watching costs the same")
    return bool(slow)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make growth")
    parser.add_argument("--rows", type=int, default=5_000_000, help="contacts, and recipients, of the large one")
    parser.add_argument("--rounds", type=int, default=15, help="requests of each line, of which the quickest counts")
    parser.add_argument("--only", default="", help="only lines whose name contains this")
    parser.add_argument("--recipients", action="store_true", help="only the collections of recipients, no contacts")
    parser.add_argument("--suppressions", action="store_true", help="only the suppression list")
    parser.add_argument("--watching", action="store_true", help="a scrape of the metrics, and `tms status`, instead")
    parser.add_argument("--due", action="store_true", help="with --watching: all recipients of the large one are due")
    parser.add_argument("--sqlite", action="store_true", help="on SQLite, contacts only, or --watching")
    given = parser.parse_args(arguments)
    if given.sqlite and (given.recipients or given.suppressions):
        parser.error("the lines of recipients and suppressions are measured on PostgreSQL")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
