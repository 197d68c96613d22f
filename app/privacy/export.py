"""Handing out what is held about a person, page by page (docs/privacy.md#handing-out)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

import orjson
from sqlalchemy import select

from app.addresses import AddressKind
from app.clock import now, timestamp
from app.db.models import Account
from app.privacy.forget import record_act_on_person
from app.privacy.person import PersonSearch
from app.privacy.place import Shown
from app.privacy.places import PLACES
from app.services import Services

Found = tuple[str, str, list[Shown]]
"""The name of an account, the name of a place, and rows that are there."""


def export_person(
    services: Services, account_ids: Sequence[int], kind: AddressKind, address: str, *, everywhere: bool = False
) -> Iterator[Found] | None:
    """Everything, account by account and in the order of the places, those without rows left out; None if nothing is
    held. The accounts are as in `forget`. It is recorded before the first page is handed out."""
    search = PersonSearch(services, account_ids, kind, address)
    pages = _pages(services, search)
    first = next(pages, None)
    if first is None:
        return None
    record_act_on_person(services, search, "person.exported", everywhere=everywhere)
    return chain([first], pages)


def _pages(services: Services, search: PersonSearch) -> Iterator[Found]:
    """Nobody knows when whoever reads it comes for the next page, so no connection is kept for that time."""
    for session, person in search.people():
        name = session.scalars(select(Account.name).where(Account.id == person.account_id)).one()
        for place in PLACES:
            for page in place.read(services, session, person):
                session.close()  # its next statement takes another connection
                yield name, place.name, page


# What is held about a person as one JSON document, made page by page (docs/privacy.md#handing-out).


def document(kind: str, address: str, pages_of_rows: Iterable[Found]) -> Iterator[str]:
    """One JSON object in parts: account -> place -> rows."""
    head = {"address": address, "kind": kind, "time": timestamp(now())}
    yield f'{_json(head)[:-1]},\n"accounts": {{'
    for number, (account, account_pages) in enumerate(groupby(pages_of_rows, itemgetter(0))):
        yield f"{',' if number else ''}\n{_json(account)}: {{"
        for place_number, (place, pages) in enumerate(groupby(account_pages, itemgetter(1))):
            yield f"{',' if place_number else ''}\n{_json(place)}: ["
            yield from _rows(pages)
            yield "]"
        yield "}"
    yield "}}\n"


def _rows(pages: Iterable[Found]) -> Iterator[str]:
    """The rows, none of which is kept once it was handed out: a reader may take its time."""
    is_first = True
    for *_, rows in pages:
        rows.reverse()
        while rows:
            yield f"{'' if is_first else ','}\n{_json(rows.pop())}"
            is_first = False


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
