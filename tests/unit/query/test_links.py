"""The envelope and the links to other pages."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from app.query.conditions import Query
from app.query.links import envelope

from .sample import Pair, parse


def links(*pairs: Pair, has_next: bool = True) -> dict[str, str]:
    made = envelope("/v1/things", parse(*pairs), size=1, has_next=has_next)["_links"]
    return {name: link["href"] for name, link in made.items()}


def test_envelope() -> None:
    """Collection envelope: offset, limit, size and the path alone."""
    assert envelope("/v1/things", Query(), size=7, has_next=False) == {
        "offset": 0,
        "limit": 100,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }


def test_next_only_where_there_is_one() -> None:
    """Where such a page exists."""
    assert links()["next"] == "/v1/things?offset=100"
    assert links(has_next=False) == {"self": "/v1/things"}


def test_prev_only_after_the_first_page() -> None:
    """Where such a page exists; it never begins before the first item."""
    assert links(("limit", "10"), ("offset", "25"), has_next=False)["prev"] == "/v1/things?limit=10&offset=15"
    assert links(("limit", "10"), ("offset", "3"), has_next=False)["prev"] == "/v1/things?limit=10&offset=0"
    assert "prev" not in links(("offset", "0"))


def test_links_keep_every_other_parameter() -> None:
    """The other pages are pages of the same result."""
    pairs = [("name:in", "Smith\\, Jr,a%2Cb"), ("name:ne", "ü&=+#/ ?"), ("offset", "5"), ("limit", "5"), ("id:ne", "1")]
    parts = urlsplit(links(*pairs)["next"])
    assert parts.path == "/v1/things"
    kept = [pair for pair in pairs if pair[0] != "offset"]
    assert parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) == [*kept, ("offset", "10")]


def test_links_are_percent_encoded() -> None:
    """A plus in a value is no space, and what comes back is plain ASCII."""
    href = links(("creation_time", "2026-01-31T10:00:00+1000"), ("name:in", "a b,ü"), ("name", "\udcff"))["next"]
    assert href == ("/v1/things?creation_time=2026-01-31T10:00:00%2B1000&name:in=a%20b,%C3%BC&name=%3F&offset=100")


def test_count_has_no_other_pages() -> None:
    """limit=0 answers with limit 0 and the number of all matching items."""
    assert envelope("/v1/things", parse(("limit", "0"), ("offset", "5")), size=7, has_next=True) == {
        "offset": 5,
        "limit": 0,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }
