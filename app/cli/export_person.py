"""`flask contacts export-person`: all that is held about a person (docs/privacy.md#handing-out)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import click
import orjson
from flask.cli import with_appcontext

from app.cli.addresses import address_kind
from app.cli.base import Command, Failure, account_option, json_option, print_part_of_json, print_rows
from app.cli.forget_person import accounts_of, all_accounts_option, record_acts
from app.clock import now, timestamp
from app.http.context import services
from app.privacy.export import Found, export_person


@click.command("export-person", cls=Command)
@click.argument("address")
@all_accounts_option
@account_option
@json_option
@with_appcontext
def export_(address: str, *, all_accounts: bool, account: str | None, as_json: bool) -> None:
    """Hand out all that is held about the person with an email address or a mobile number, as JSON; without --json,
    only how much there is of it. Ends with 1 if nothing is held."""
    kind, accounts = address_kind(address), accounts_of(account, all_accounts)
    found = export_person(services(), accounts, kind, address)
    first = next(found, None)
    if first is None:
        raise Failure(f"nothing is held about {address}")
    record_acts("person.exported", address, accounts)
    if as_json:
        for text in _document(kind, address, first, found):
            print_part_of_json(text)
        return
    _print_counts(first, found)


def _print_counts(first: Found, others: Iterable[Found]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for account, place, rows in (first, *others):
        counts[account, place] += len(rows)
    print_rows(
        [{"account": account, "place": place, "held": count} for (account, place), count in counts.items()], False
    )


def _document(kind: str, address: str, first: Found, others: Iterator[Found]) -> Iterator[str]:
    """One JSON object, made page by page: account -> place -> rows."""

    def pages() -> Iterator[Found]:
        yield first
        yield from others

    head = {"address": address, "kind": kind, "time": timestamp(now())}
    yield f'{_json(head)[:-1]},\n"accounts": {{'
    for number, (account, places) in enumerate(groupby(pages(), itemgetter(0))):
        yield f"{',' if number else ''}\n{_json(account)}: {{"
        yield from _places(places)
        yield "}"
    yield "}}\n"


def _places(found: Iterable[Found]) -> Iterator[str]:
    for number, (place, pages) in enumerate(groupby(found, itemgetter(1))):
        yield f"{',' if number else ''}\n{_json(place)}: ["
        for row, shown in enumerate(shown for *_, rows in pages for shown in rows):
            yield f"{',' if row else ''}\n{_json(shown)}"
        yield "]"


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
