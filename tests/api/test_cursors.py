"""The links of every collection: they lead through it once, whatever happens meanwhile, and no page costs more than
another (docs/querying.md#cursors)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete

from app.db.models import Contact, QueueEntry, Recipient
from app.services import Services
from tests.support.cases import each
from tests.support.client import Client, bad_query, not_found
from tests.support.collections import (
    BEGINNING,
    COLLECTIONS,
    PagedCollection,
    contacts,
    lists,
    messages,
    without_cursor,
)
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_tenant
from tests.support.testing import refreshed
from tests.support.work import work_of

COUNT = 23
LIMIT = 5


@pytest.fixture(scope="module", params=COLLECTIONS)
def collection(request: pytest.FixtureRequest, app: Flask) -> PagedCollection:
    """A collection of 23 items."""
    return COLLECTIONS[request.param](new_tenant(app), COUNT)


@pytest.fixture
def contacts_of_a_list(tenant: Tenant) -> PagedCollection:
    return contacts(tenant, COUNT)


def without(href: str, parameter: str) -> str:
    path, _, query = href.partition("?")
    return f"{path}?{'&'.join(pair for pair in query.split('&') if not pair.startswith(f'{parameter}='))}"


def next_of(page: dict[str, Any]) -> str:
    href: str = page["_links"]["next"]["href"]
    return href


def envelopes(pages: Sequence[dict[str, Any]]) -> list[tuple[int, set[str]]]:
    """The offset of each page and the names of its links to other pages."""
    return [(page.get("offset", 0), {"next", "prev"} & set(page["_links"])) for page in pages]


# ---------------------------------------------------------------------------------------------- every collection


def test_next_and_prev_lead_through_the_whole_and_back(collection: PagedCollection) -> None:
    whole = collection.keys(collection.page(f"{collection.path}?limit=1000"))
    assert len(set(whole)) == COUNT
    forward = list(collection.follow(f"{collection.path}?limit={LIMIT}", "next"))
    assert [collection.keys(page) for page in forward] == [whole[at : at + LIMIT] for at in range(0, COUNT, LIMIT)]
    last = next_of(forward[-2])
    backward = list(collection.follow(last, "prev"))
    assert [collection.keys(page) for page in reversed(backward)] == [collection.keys(page) for page in forward]
    if "offset" in forward[0]:
        expected = [(0, {"next"}), *((at, {"next", "prev"}) for at in (5, 10, 15)), (20, {"prev"})]
        assert envelopes(forward) == envelopes(backward[::-1]) == expected


def test_pages_that_begin_anywhere_are_read_back_to_the_first_item(collection: PagedCollection) -> None:
    whole = collection.keys(collection.page(f"{collection.path}?limit=1000"))
    start = collection.page(f"{collection.path}?limit={LIMIT}&offset=13")
    before = list(collection.follow(start["_links"]["prev"]["href"], "prev"))
    assert [collection.keys(page) for page in before] == [whole[8:13], whole[3:8], whole[:3]]
    assert collection.keys(collection.page(next_of(before[-1]))) == whole[3:8]


def test_a_link_without_its_cursor_leads_to_the_same_page_by_its_offset(collection: PagedCollection) -> None:
    page = collection.page(f"{collection.path}?limit={LIMIT}&offset=5")
    for link in (page["_links"][name]["href"] for name in ("next", "prev")):
        assert collection.keys(collection.page(without_cursor(link))) == collection.keys(collection.page(link))


def test_a_cursor_is_refused_beside_anything_but_its_link(collection: PagedCollection) -> None:
    link = next_of(collection.page(f"{collection.path}?limit={LIMIT}"))
    api = collection.tenant.api
    for changed in (
        f"{link}&_tz=UTC",
        link.replace(f"limit={LIMIT}", "limit=6"),
        link.replace(f"limit={LIMIT}", "limit=0"),
        link.replace("offset=5", "offset=6"),
        without(link, "offset"),
        without(link, "limit"),
        f"{link}x",
        link[:-1],
        f"{without(link, 'cursor')}&cursor=",
        f"{link}&cursor={link.partition('cursor=')[2]}",
    ):
        bad_query(api.get(changed), "invalid_query_syntax", field="cursor")
    bad_query(api.get(link.replace("cursor=", "cursor:in=")), "invalid_operator", field="cursor")
    assert api.request("HEAD", link).status_code == 200
    path, _, query = link.partition("?")
    assert api.get(f"{path}/?{'&'.join(reversed(query.split('&')))}").get_json() == collection.page(link)


@each("collected", [lists, messages])
def test_a_test_key_reads_copies_of_one_second_in_the_order_of_their_originals(
    tenant: Tenant, collected: Callable[[Tenant, int], PagedCollection]
) -> None:
    """With what was made in the test account among them, which is no copy."""
    live = collected(tenant, 2)
    made = collected(refreshed(tenant), 1)
    collected(tenant, 1)
    copies = replace(live, tenant=refreshed(tenant))
    whole = copies.keys(copies.page())
    assert whole == sorted({*live.keys(live.page()), *made.keys(made.page())}, reverse=True)
    assert len(whole) == 4
    first = f"{copies.path}?limit=1"
    forward = list(copies.follow(first, "next"))
    assert [copies.keys(page) for page in forward] == [[key] for key in whole]
    assert list(copies.follow(next_of(forward[-2]), "prev")) == forward[::-1]
    for field in ("id", "name"):
        named = list(copies.follow(f"{first}&fields={field}", "next"))
        assert [copies.items(page)[0]["_links"] for page in named] == [
            copies.items(page)[0]["_links"] for page in forward
        ]
    for page in forward[:-1]:
        assert copies.keys(copies.page(without_cursor(next_of(page)))) == copies.keys(copies.page(next_of(page)))


# ---------------------------------------------------------------------------------------------- of another


def test_a_cursor_of_another_account_or_list_is_refused(tenant: Tenant, other_tenant: Tenant) -> None:
    mine, theirs = lists(tenant, 3), lists(other_tenant, 3)
    link = next_of(mine.page(f"{mine.path}?limit=1"))
    assert theirs.page(without_cursor(link))["size"] == 1
    bad_query(other_tenant.api.get(link), "invalid_query_syntax", field="cursor")
    first_pages, two = contacts(tenant, 3), contacts(tenant, 3)
    link = next_of(first_pages.page(f"{first_pages.path}?limit=1"))
    bad_query(tenant.api.get(link.replace(first_pages.path, two.path)), "invalid_query_syntax", field="cursor")
    not_found(other_tenant.api.get(link))


def test_where_nothing_is_paged_there_is_no_cursor(api: Client, contacts_of_a_list: PagedCollection) -> None:
    first = contacts_of_a_list.page()["_embedded"]["contacts"][0]["_links"]["self"]["href"]
    bad_query(api.get(first, {"cursor": "x"}), "parameter_not_available")
    bad_query(api.delete(contacts_of_a_list.path, {"cursor": "x"}), "parameter_not_available")


def test_a_list_field_named_cursor_is_filtered_and_pages_by_offset(tenant: Tenant, api: Client) -> None:
    """An addition removes nothing: in the API every field key is a filter."""
    list_id = tenant.add_list(fields=(("Email", "Email"), ("Cursor", "Text Field")))
    path = f"/v1/lists/{list_id}/contacts"
    api.post(path, {"contacts": [{"cursor": "x"}, {"cursor": "y"}, {"cursor": "x"}]})
    first = api.get(path, {"cursor": "x", "limit": 1}).get_json()
    assert next_of(first) == f"{path}?cursor=x&limit=1&offset=1"
    assert api.get(next_of(first)).get_json()["_embedded"]["contacts"][0]["cursor"] == "x"
    for embedded in (
        api.get(f"/v1/lists/{list_id}", {"expand": "contacts"}).get_json(),
        api.get("/v1/lists", {"expand": "contacts"}).get_json()["_embedded"]["lists"][0],
    ):
        assert embedded["_embedded"]["contacts"]["size"] == 3


def test_the_contacts_of_an_expanded_list_go_on_by_cursor(tenant: Tenant, api: Client) -> None:
    paged = contacts(tenant, 103)
    list_path = paged.path.removesuffix("/contacts")
    for query in ({"expand": "contacts"}, {"expand": "contacts", "_tz": "Australia/Brisbane"}):
        lists_page = [
            api.get(list_path, query).get_json()["_embedded"]["contacts"],
            api.get("/v1/lists", query).get_json()["_embedded"]["lists"][0]["_embedded"]["contacts"],
        ]
        assert lists_page[0] == lists_page[1]
        without_cursor(next_of(lists_page[0]))
        pages = [lists_page[0], *paged.follow(next_of(lists_page[0]), "next")]
        assert len({key for page in pages for key in paged.keys(page)}) == 103


# ---------------------------------------------------------------------------------------------- changes meanwhile


class Churn:
    """Creates contacts anywhere in the order of a list, and deletes some of those that are there."""

    def __init__(self, paged: PagedCollection, seed: int) -> None:
        self._paged, self._random = paged, random.Random(seed)
        self._list_id = int(paged.path.split("/")[3])
        self.lasting = set(paged.keys(paged.page(f"{paged.path}?limit=1000")))
        self._present = sorted(self.lasting)

    def __call__(self) -> None:
        times = [BEGINNING + timedelta(minutes=self._random.randint(-1, COUNT // 3 + 1)) for _ in range(3)]
        rows = [
            {"list_id": self._list_id, "values": {}, "creation_time": time, "last_modified_time": time}
            for time in times
        ]
        gone = self._random.sample(self._present, 3)
        with self._paged.tenant.services.database.write() as transaction:
            transaction.execute(delete(Contact).where(Contact.id.in_(gone)))
        self.lasting -= set(gone)
        added = self._paged.tenant.add_all(Contact, rows)
        self._present = [key for key in self._present if key not in gone] + added


@pytest.mark.parametrize("direction", ["next", "prev"])
@pytest.mark.parametrize("seed", range(6))
def test_what_lasts_is_read_once_whatever_changes_between_pages(
    contacts_of_a_list: PagedCollection, direction: str, seed: int
) -> None:
    paged, change = contacts_of_a_list, Churn(contacts_of_a_list, seed)
    start = f"{paged.path}?limit=4"
    if direction == "prev":
        # The last page; from there back to the first.
        start = next_of(list(paged.follow(start, "next"))[-2])
    read: list[int] = []
    for page in paged.follow(start, direction):
        keys = paged.keys(page)
        read += keys if direction == "next" else keys[::-1]
        change()
    assert len(read) == len(set(read))
    assert change.lasting <= set(read)


def test_prev_of_a_page_beyond_the_end_leads_to_the_last_page_with_items(collection: PagedCollection) -> None:
    path, _, query = collection.path.partition("?")
    whole = collection.keys(collection.page(f"{path}?{query}&limit=1000"))
    for offset in (COUNT, COUNT + 1, COUNT + LIMIT, 1000, 2**70):
        beyond = collection.page(f"{path}?{query}&limit={LIMIT}&offset={offset}")
        assert (collection.keys(beyond), {"next", "prev"} & set(beyond["_links"])) == ([], {"prev"})
        last = collection.page(beyond["_links"]["prev"]["href"])
        assert collection.keys(last)[-1:] == whole[-1:]
        assert 0 < len(collection.keys(last)) <= LIMIT


def test_a_page_beyond_the_end_of_nothing_leads_nowhere(tenant: Tenant) -> None:
    page = tenant.api.get("/v1/lists", {"name": "none", "offset": 5}).get_json()
    assert (page["size"], set(page["_links"])) == (0, {"self"})


def test_a_page_whose_items_are_deleted_leads_back(contacts_of_a_list: PagedCollection) -> None:
    paged = contacts_of_a_list
    whole = paged.keys(paged.page())
    link = next_of(paged.page(f"{paged.path}?limit={LIMIT}"))
    with paged.tenant.services.database.write() as transaction:
        transaction.execute(delete(Contact).where(Contact.id.in_(whole[LIMIT:])))
    empty = paged.page(link)
    assert (empty["size"], set(empty["_links"])) == (0, {"self", "prev"})
    back = paged.page(empty["_links"]["prev"]["href"])
    assert (back["offset"], paged.keys(back), set(back["_links"])) == (0, whole[:LIMIT], {"self", "next"})


# ---------------------------------------------------------------------------------------------- cost

MANY = 1500


@pytest.fixture(scope="module", params=COLLECTIONS)
def long_collection(request: pytest.FixtureRequest, app: Flask) -> PagedCollection:
    """A collection of 1,500 items, of which the planner knows. Messages that others have left unsent would tell it that
    hardly any of these are sent, either."""
    tenant = new_tenant(app)
    database = tenant.services.database
    with database.write() as transaction:
        transaction.execute(delete(QueueEntry))
        transaction.execute(delete(Recipient))
    paged = COLLECTIONS[request.param](tenant, MANY)
    if database.is_postgresql:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"ANALYZE {paged.model.__tablename__}")
    return paged


Cost = Callable[[str], int]


@pytest.fixture
def cost(
    services: Services, long_collection: PagedCollection, count_statements: Callable[[], StatementCounter]
) -> Cost:
    """How much the database reads of the collection for the page that a link leads to."""

    def measure(href: str) -> int:
        with count_statements() as counted:
            long_collection.page(href)
        table = long_collection.model.__tablename__
        (sent,) = [
            statement
            for statement in counted.sent
            if "ORDER BY" in statement.statement and f"FROM {table}" in statement.statement
        ]
        return work_of(services.database.engine, sent, table)

    return measure


def test_no_page_reached_by_a_link_costs_more_than_another(long_collection: PagedCollection, cost: Cost) -> None:
    """Following the links takes time in proportion to the collection; skipping by offset does not."""
    path = long_collection.path
    early = long_collection.page(f"{path}?limit={LIMIT}&offset=10")["_links"]
    late = long_collection.page(f"{path}?limit={LIMIT}&offset={MANY - 20}")["_links"]
    for direction in ("next", "prev"):
        costs = [cost(links[direction]["href"]) for links in (early, late)]
        assert costs[1] <= costs[0] * 1.5, direction
        assert cost(without_cursor(late[direction]["href"])) > 3 * costs[1]


def test_a_page_far_from_the_first_has_the_same_items_by_its_offset_and_by_its_link(
    long_collection: PagedCollection,
) -> None:
    path, keys = long_collection.path, long_collection.keys
    first = long_collection.page(f"{path}?limit={LIMIT}&offset={MANY - 20}")
    linked = long_collection.page(next_of(first))
    assert len({*keys(first), *keys(linked)}) == 2 * LIMIT
    assert keys(long_collection.page(without_cursor(next_of(first)))) == keys(linked)
    assert (
        keys(long_collection.page(f"{path}?limit={LIMIT}&offset={MANY - 2}"))
        == keys(list(long_collection.follow(next_of(first), "next"))[-1])[-2:]
    )
    assert keys(long_collection.page(f"{path}?limit={LIMIT}&offset={MANY}")) == []
