"""The envelope of a collection and the links to its other pages (docs/querying.md#pages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from app.query.conditions import Query
from app.query.cursors import CURSOR, OrderValue, Position


@dataclass(frozen=True, slots=True)
class PageEnds:
    """The number of items on a page, and the pages at both ends of it.

    `size` is with `limit=0` the number of all matching items; then there are no other pages
    (docs/querying.md#counting). The positions are those where the other pages begin; None if only their offset is
    known, which is `prev_offset` where it is not one page before this one.
    """

    size: int
    has_next: bool = False
    has_prev: bool = False
    next: Position | None = None
    prev: Position | None = None
    prev_offset: int | None = None


def page_ends(
    query: Query,
    size: int,
    *,
    has_more: bool,
    first: tuple[OrderValue, ...] | None,
    last: tuple[OrderValue, ...] | None,
) -> PageEnds:
    """The ends of a page that was read. `first` and `last` are the values that order its outer items, None on an empty
    page; `has_more` is whether there are items beyond it in the direction in which it was read."""
    position = query.position
    # The other direction is not looked up: it is where the client came from.
    backward = position is not None and position.backward
    has_next, has_prev = (True, has_more) if backward else (has_more, query.offset > 0)
    if first is None or last is None:
        # No item is left on this side of the position: the other page begins with it.
        rest = position and position.opposite
        return PageEnds(size, has_next, has_prev, rest, rest)
    return PageEnds(size, has_next, has_prev, Position(last), Position(first, backward=True))


def is_beyond_end(query: Query, size: int) -> bool:
    """Whether a page of this size was asked for by an offset at which there is nothing."""
    return size == 0 and query.offset > 0 and query.position is None and not query.counts_only


def ends_beyond_end(query: Query, total: int) -> PageEnds:
    """The ends of a page beyond the last of `total` items: the page before it is the last one that has items, of those
    that paging back from it comes to."""
    if total == 0:
        return PageEnds(0)
    pages = (query.offset - total) // query.limit + 1
    return PageEnds(0, has_prev=True, prev_offset=max(0, query.offset - pages * query.limit))


def envelope(path: str, query: Query, ends: PageEnds) -> dict[str, Any]:
    """`offset`, `limit`, `size` and `_links` of one page; the caller adds `_embedded`. `path` is the percent-encoded
    path of the collection."""
    links = {"self": {"href": path}, **page_links(path, query, ends)}
    return {"offset": query.offset, "limit": query.limit, "size": ends.size, "_links": links}


def page_links(path: str, query: Query, ends: PageEnds) -> dict[str, Any]:
    """`next` and `prev`, if such pages exist."""
    links: dict[str, Any] = {}
    if ends.has_next:
        links["next"] = {"href": page_link(path, query, query.offset + ends.size, ends.next)}
    if ends.has_prev:
        offset = max(0, query.offset - query.limit) if ends.prev_offset is None else ends.prev_offset
        links["prev"] = {"href": page_link(path, query, offset, ends.prev)}
    return links


def page_link(path: str, query: Query, offset: int, position: Position | None) -> str:
    """The path with the parameters of the query, another offset, and the cursor of the position."""
    pairs = [*((key, value) for key, value in query.pairs if key != "offset"), ("offset", str(offset))]
    if position is not None and query.cursors is not None:
        pairs.append((CURSOR, query.cursors.make(position, pairs)))
    # A space must not become "+", which means something else in a timestamp.
    return f"{path}?{urlencode(pairs, quote_via=quote, safe=':,', errors='replace')}"
