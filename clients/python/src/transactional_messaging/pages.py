"""Collections, read page by page while one iterates over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from transactional_messaging.caller import Caller, Json, Pairs
from transactional_messaging.resource import Resource

R = TypeVar("R", bound=Resource)
Reader = Callable[[Json], list[R]]
"""Takes the items out of the JSON of a page."""


@dataclass(frozen=True)
class Page(Generic[R]):
    """One page, and the links to its neighbours."""

    items: list[R]
    next: str | None
    prev: str | None


class Collection(Generic[R]):
    """The items that a query finds, newest first. Iterating reads all pages, each when it is needed; items that exist
    all the while are read once, whatever is created or deleted meanwhile."""

    def __init__(self, caller: Caller, path: str, query: Pairs, read: Reader[R]) -> None:
        self._caller, self._path, self._query, self._read = caller, path, list(query), read

    def __iter__(self) -> Iterator[R]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[R]]:
        """The pages, of `limit` items each."""
        page = self._page(self._caller.get(self._path, self._query))
        yield page
        while page.next is not None:
            page = self._page(self._caller.follow(page.next))
            yield page

    def first(self) -> R | None:
        """The newest item, or None if nothing is found."""
        items = self._page(self._limited(1)).items
        return items[0] if items else None

    def count(self) -> int:
        """The number of items, without reading them."""
        return int(self._limited(0)["size"])

    def _limited(self, limit: int) -> Json:
        others = [(name, value) for name, value in self._query if name not in ("limit", "offset")]
        return self._caller.get(self._path, [*others, ("limit", str(limit))])

    def _page(self, json: Json) -> Page[R]:
        links: Mapping[str, Mapping[str, str]] = json["_links"]
        neighbours = (links[name]["href"] if name in links else None for name in ("next", "prev"))
        return Page(self._read(json), *neighbours)


def items_of(name: str, kind: type[R]) -> Reader[R]:
    """Reads the array of an envelope."""

    def read(json: Json) -> list[R]:
        found: list[Mapping[str, Any]] = json["_embedded"][name]
        return [kind(one) for one in found]

    return read
