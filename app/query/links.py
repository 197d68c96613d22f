"""The envelope of a collection and the links to its other pages (docs/querying.md#pages)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from app.query.conditions import Query


def envelope(path: str, query: Query, *, size: int, has_next: bool) -> dict[str, Any]:
    """`offset`, `limit`, `size` and `_links` of one page; the caller adds `_embedded`.

    `path` is the percent-encoded path of the collection. `size` is the number of items on the page, or with
    `limit=0` of all matching ones; then there are no other pages to link to (docs/querying.md#counting).
    """
    links = {"self": {"href": path}, **page_links(path, query, has_next=has_next)}
    return {"offset": query.offset, "limit": query.limit, "size": size, "_links": links}


def page_links(path: str, query: Query, *, has_next: bool) -> dict[str, Any]:
    """`next` and `prev`, where such pages exist."""
    links: dict[str, Any] = {}
    if has_next and not query.counts_only:
        links["next"] = {"href": page_link(path, query, query.offset + query.limit)}
    if query.offset > 0 and not query.counts_only:
        links["prev"] = {"href": page_link(path, query, max(0, query.offset - query.limit))}
    return links


def page_link(path: str, query: Query, offset: int) -> str:
    """The path with the parameters of the query and another offset."""
    others = [(key, value) for key, value in query.pairs if key != "offset"]
    # A space must not become "+", which means something else in a timestamp.
    return f"{path}?{urlencode([*others, ('offset', offset)], quote_via=quote, safe=':,', errors='replace')}"
