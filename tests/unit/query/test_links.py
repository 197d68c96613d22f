"""The envelope of a collection and the links to other pages."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from app.query.conditions import Query
from app.query.links import envelope

from .sample import Pair, parse


def links(*pairs: Pair, has_next: bool = True) -> dict[str, str]:
    links = envelope("/v1/things", parse(*pairs), size=1, has_next=has_next)["_links"]
    return {name: link["href"] for name, link in links.items()}


def test_the_envelope_has_offset_limit_size_and_a_path_without_host() -> None:
    assert envelope("/v1/things", Query(), size=7, has_next=False) == {
        "offset": 0,
        "limit": 100,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }


def test_there_is_a_next_link_only_where_there_is_a_next_page() -> None:
    assert links()["next"] == "/v1/things?offset=100"
    assert links(has_next=False) == {"self": "/v1/things"}


def test_there_is_a_prev_link_only_after_the_first_page() -> None:
    """It never begins before the first item."""
    assert links(("limit", "10"), ("offset", "25"), has_next=False)["prev"] == "/v1/things?limit=10&offset=15"
    assert links(("limit", "10"), ("offset", "3"), has_next=False)["prev"] == "/v1/things?limit=10&offset=0"
    assert "prev" not in links(("offset", "0"))


def test_links_keep_all_other_parameters() -> None:
    """Other pages belong to the same result."""
    pairs = [("name:in", "Smith\\, Jr,a%2Cb"), ("name:ne", "ü&=+#/ ?"), ("offset", "5"), ("limit", "5"), ("id:ne", "1")]
    parts = urlsplit(links(*pairs)["next"])
    assert parts.path == "/v1/things"
    kept = [pair for pair in pairs if pair[0] != "offset"]
    assert parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) == [*kept, ("offset", "10")]


def test_links_are_percent_encoded() -> None:
    """A plus in a value is not a space, and the link is plain ASCII."""
    href = links(("creation_time", "2026-01-31T10:00:00+1000"), ("name:in", "a b,ü"), ("name", "\udcff"))["next"]
    assert href == ("/v1/things?creation_time=2026-01-31T10:00:00%2B1000&name:in=a%20b,%C3%BC&name=%3F&offset=100")


def test_a_count_has_no_other_pages() -> None:
    """With limit=0 the answer has limit 0 and the number of all matching items."""
    assert envelope("/v1/things", parse(("limit", "0"), ("offset", "5")), size=7, has_next=True) == {
        "offset": 5,
        "limit": 0,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }
