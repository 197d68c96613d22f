"""What is held about a person as one JSON document, made page by page (docs/privacy.md#handing-out)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import orjson

from app.clock import now, timestamp
from app.privacy.export import Found


def document(kind: str, address: str, found: Iterable[Found]) -> Iterator[str]:
    """One JSON object in parts: account -> place -> rows."""
    head = {"address": address, "kind": kind, "time": timestamp(now())}
    yield f'{_json(head)[:-1]},\n"accounts": {{'
    for number, (account, places) in enumerate(groupby(found, itemgetter(0))):
        yield f"{',' if number else ''}\n{_json(account)}: {{"
        yield from _places(places)
        yield "}"
    yield "}}\n"


def _places(found: Iterable[Found]) -> Iterator[str]:
    for number, (place, pages) in enumerate(groupby(found, itemgetter(1))):
        yield f"{',' if number else ''}\n{_json(place)}: ["
        for row, shown in enumerate(_removed(pages)):
            yield f"{',' if row else ''}\n{shown}"
        yield "]"


def _removed(pages: Iterable[Found]) -> Iterator[str]:
    """The rows, none of which is kept once it was handed out: a reader may take its time."""
    for *_, rows in pages:
        rows.reverse()
        while rows:
            yield _json(rows.pop())


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
