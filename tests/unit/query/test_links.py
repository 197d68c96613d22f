"""The envelope of a collection and the links to other pages."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from app.query.conditions import Query
from app.query.cursors import Position
from app.query.fields import Filter, FilterType
from app.query.grammar import parse_collection
from app.query.links import PageEnds, envelope, page_ends

from .sample import CURSORS, RESOURCE, Pair, parse, parse_with_cursors


def links(*pairs: Pair, has_next: bool = True) -> dict[str, str]:
    """The links of a full page that was read by its offset alone."""
    query = parse(*pairs)
    ends = page_ends(query, query.limit, has_more=has_next, first=(9,), last=(5,))
    return {name: link["href"] for name, link in envelope("/v1/things", query, ends)["_links"].items()}


def test_the_envelope_has_offset_limit_size_and_a_path_without_host() -> None:
    assert envelope("/v1/things", Query(), PageEnds(7)) == {
        "offset": 0,
        "limit": 100,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }


def test_there_is_a_next_link_only_where_there_is_a_next_page() -> None:
    assert links()["next"] == "/v1/things?offset=100"
    assert links(has_next=False) == {"self": "/v1/things"}


def test_there_is_a_prev_link_only_after_the_first_page() -> None:
    """The previous page never begins before the first item."""
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
    """The answer to `limit=0` has limit 0 and the number of all matching items."""
    assert envelope("/v1/things", parse(("limit", "0"), ("offset", "5")), PageEnds(7)) == {
        "offset": 5,
        "limit": 0,
        "size": 7,
        "_links": {"self": {"href": "/v1/things"}},
    }


# ---------------------------------------------------------------------------------------------- cursors

FIRST, LAST = (9,), (5,)


def followed(query: Query, size: int, *, has_more: bool = True) -> dict[str, Query]:
    """The queries of the links of a page from item 9 to item 5, or of an empty one."""
    first, last = (FIRST, LAST) if size else (None, None)
    ends = page_ends(query, size, has_more=has_more, first=first, last=last)
    made = envelope(CURSORS.path, query, ends)["_links"]
    return {
        name: parse_with_cursors(*parse_qsl(urlsplit(made[name]["href"]).query, keep_blank_values=True))
        for name in made.keys() - {"self"}
    }


def test_links_carry_where_the_other_pages_begin() -> None:
    pages = followed(parse_with_cursors(("limit", "5"), ("offset", "20"), ("name", "\udcff é")), 5)
    assert {name: (page.offset, page.position) for name, page in pages.items()} == {
        "next": (25, Position(LAST)),
        "prev": (15, Position(FIRST, backward=True)),
    }


def test_a_page_that_was_reached_backward_has_a_next_and_looks_for_a_prev() -> None:
    page = followed(parse_with_cursors(("limit", "5"), ("offset", "7")), 5)["prev"]
    assert set(followed(page, 5, has_more=True)) == {"next", "prev"}
    assert set(followed(page, 2, has_more=False)) == {"next"}


def test_the_offset_after_a_short_first_page_is_the_number_of_its_items() -> None:
    page = followed(parse_with_cursors(("limit", "5"), ("offset", "2")), 5)["prev"]
    assert page.offset == 0
    assert followed(page, 2, has_more=False)["next"].offset == 2


def test_a_page_whose_items_are_gone_leads_back_to_the_item_that_it_followed() -> None:
    forward = followed(parse_with_cursors(("limit", "5")), 5)["next"]
    back = followed(forward, 0, has_more=False)
    assert {name: page.position for name, page in back.items()} == {"prev": Position(LAST, True, True)}
    again = followed(back["prev"], 0, has_more=False)
    assert {name: page.position for name, page in again.items()} == {"next": Position(LAST)}


def test_an_empty_page_by_offset_has_a_prev_by_offset() -> None:
    pages = followed(parse_with_cursors(("limit", "5"), ("offset", "5000")), 0, has_more=False)
    assert {name: (page.offset, page.position) for name, page in pages.items()} == {"prev": (4995, None)}


def test_where_a_filter_is_named_cursor_links_have_none() -> None:
    """The API's filter of a list field is not replaced."""
    filters = {"cursor": Filter("cursor", FilterType.STRING)}
    query = parse_collection([("cursor", "x")], replace(RESOURCE, filters=filters), CURSORS)
    ends = page_ends(query, 100, has_more=True, first=FIRST, last=LAST)
    assert envelope(CURSORS.path, query, ends)["_links"]["next"]["href"] == "/v1/things?cursor=x&offset=100"
    assert [condition.filter.name for condition in query.conditions] == ["cursor"]
