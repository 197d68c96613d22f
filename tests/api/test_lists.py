"""Lists: reading them, and their contacts embedded (docs/endpoints.md#lists)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from app.clock import this_second, timestamp
from app.db.models import Contact, List
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, ids, items, not_found
from tests.support.collections import without_cursor
from tests.support.contacts import contacts_path
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email


def test_a_list_has_every_documented_property(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list("Customers")
    body = api.get(f"/v1/lists/{list_id}").get_json()
    assert list(body) == ["id", "name", "creation_time", "last_modified_time", "_links"]
    assert (body["id"], body["name"]) == (list_id, "Customers")
    assert body["_links"] == {
        "self": {"href": f"/v1/lists/{list_id}"},
        "contacts": {"href": f"/v1/lists/{list_id}/contacts"},
    }


def test_the_collection_has_an_envelope_and_is_sorted_newest_first(tenant: Tenant, api: Client) -> None:
    moment = this_second()
    old = tenant.add_list("Old", creation_time=moment - timedelta(days=1))
    first, second = tenant.add_list("First"), tenant.add_list("Second")
    body = api.get("/v1/lists").get_json()
    assert [item["id"] for item in body["_embedded"]["lists"]] == [second, first, old]
    assert (body["offset"], body["limit"], body["size"]) == (0, 100, 3)
    assert body["_links"] == {"self": {"href": "/v1/lists"}}


def test_filters(tenant: Tenant, api: Client) -> None:
    moment = this_second()
    old = tenant.add_list("Old", creation_time=moment - timedelta(days=9), last_modified_time=moment)
    new = tenant.add_list("New", creation_time=moment, last_modified_time=moment - timedelta(days=9))
    nameless = tenant.add(
        List,
        name=None,
        creation_time=moment - timedelta(days=2),
        last_modified_time=moment - timedelta(days=2),
    )
    before = timestamp(moment - timedelta(days=5))
    assert ids(api.get("/v1/lists", {"id": old}), "lists") == [old]
    assert ids(api.get("/v1/lists", {"name": "New"}), "lists") == [new]
    assert ids(api.get("/v1/lists", {"name": ""}), "lists") == [nameless]
    assert ids(api.get("/v1/lists", {"name:ne": "New"}), "lists") == [nameless, old]
    assert ids(api.get("/v1/lists", {"creation_time:in": f"..{before}"}), "lists") == [old]
    assert ids(api.get("/v1/lists", {"last_modified_time:in": f"..{before}"}), "lists") == [new]


def test_lists_accept_fields_and_time_zone(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list()
    body = api.get(f"/v1/lists/{list_id}", {"fields": "id,creation_time", "_tz": "Australia/Brisbane"}).get_json()
    assert set(body) == {"id", "creation_time", "_links"}
    assert body["creation_time"].endswith("+1000")


def test_another_accounts_list_does_not_exist(tenant: Tenant, other_tenant: Tenant, api: Client) -> None:
    theirs = other_tenant.add_list()
    not_found(api.get(f"/v1/lists/{theirs}"))
    not_found(api.get(f"/v1/lists/{theirs}", {"nonsense": 1}))
    assert ids(api.get("/v1/lists", {"id": theirs}), "lists") == []


@each("segment", ["0", "-1", "abc", "1.5", "99999999999999999999999", "٣"])
def test_a_malformed_id_is_not_found(api: Client, segment: str) -> None:
    not_found(api.get(f"/v1/lists/{segment}"))


def test_query_parameters_of_an_instance(tenant: Tenant, api: Client) -> None:
    path = f"/v1/lists/{tenant.add_list()}"
    bad_query(api.get(path, {"limit": 1}), "parameter_not_available", field="limit")
    bad_query(api.get(path, {"nonsense": 1}), "parameter_not_supported", field="nonsense")
    bad_query(api.get(path, {"expand": "content"}), "invalid_query_syntax", field="expand")


def test_lists_require_the_standard_level(tenant: Tenant) -> None:
    for level in ("limited", "report"):
        check_error(tenant.client(level).get("/v1/lists"), 403, "permission_denied")


# ---------------------------------------------------------------------------------------------- expand=contacts


def test_expand_embeds_the_first_default_page(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list()
    api.post(contacts_path(list_id), {"contacts": [{"email": new_email()} for _ in range(101)]})
    inner = api.get(f"/v1/lists/{list_id}", {"expand": "contacts"}).get_json()["_embedded"]["contacts"]
    page = api.get(contacts_path(list_id)).get_json()
    assert inner == page
    assert (inner["size"], without_cursor(inner["_links"]["next"]["href"])) == (
        100,
        f"{contacts_path(list_id)}?offset=100",
    )


def test_the_next_page_of_embedded_contacts_keeps_the_time_zone(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list()
    api.post(contacts_path(list_id), {"contacts": [{"email": new_email()} for _ in range(101)]})
    for path in (f"/v1/lists/{list_id}", "/v1/lists"):
        body = api.get(path, {"expand": "contacts", "_tz": "Australia/Brisbane"}).get_json()
        body = body if "id" in body else next(item for item in body["_embedded"]["lists"] if item["id"] == list_id)
        inner = body["_embedded"]["contacts"]
        href = without_cursor(inner["_links"]["next"]["href"])
        assert href.endswith(f"/{list_id}/contacts?_tz=Australia/Brisbane&offset=100")
        (item,) = items(api.get(inner["_links"]["next"]["href"]))
        assert item["creation_time"].endswith("+1000")


def test_expand_of_an_exact_page_has_no_next_link(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list()
    api.post(contacts_path(list_id), {"contacts": [{"email": new_email()} for _ in range(100)]})
    inner = api.get(f"/v1/lists/{list_id}", {"expand": "contacts"}).get_json()["_embedded"]["contacts"]
    assert (inner["size"], list(inner["_links"])) == (100, ["self"])


def test_expand_on_the_collection_shows_the_fields_of_each_list(tenant: Tenant, api: Client) -> None:
    plain = tenant.add_list("Plain", PLAIN_FIELDS)
    bare = tenant.add_list("Bare", (("Email", "Email"),))
    spend = tenant.add_list("Spend", (("Mobile", "Mobile Phone"), ("Spend", "Currency"), ("Born", "Date of Birth")))
    empty = tenant.add_list("Empty")
    tenant.new_contact(plain, first_name="Ann")
    tenant.new_contact(bare, email="bare@example.com")
    tenant.new_contact(spend, spend=1.5, born="1990-01-01")
    contacts = {
        item["id"]: item["_embedded"]["contacts"] for item in items(api.get("/v1/lists?expand=contacts"), "lists")
    }
    for list_id in (plain, bare, spend, empty):
        assert contacts[list_id] == api.get(contacts_path(list_id)).get_json()
    assert contacts[spend]["_embedded"]["contacts"][0]["spend"] == 1.5
    assert contacts[empty]["size"] == 0


def test_expand_pages_the_contacts_of_each_list(tenant: Tenant, api: Client) -> None:
    """Contacts of other times and of the same second, more and fewer than a page."""
    moment = this_second()
    lists = [tenant.add_list() for _ in range(3)]
    for number, list_id in enumerate(lists):
        for age in range(60 * (number + 1)):
            past = moment - timedelta(seconds=age // 7)
            tenant.add(Contact, list_id=list_id, creation_time=past, last_modified_time=past, values={})
    contacts = {
        item["id"]: item["_embedded"]["contacts"] for item in items(api.get("/v1/lists?expand=contacts"), "lists")
    }
    for list_id in lists:
        assert contacts[list_id] == api.get(contacts_path(list_id)).get_json()


def test_fields_do_not_affect_embedded_contacts(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list()
    tenant.new_contact(list_id, first_name="Ann")
    body = api.get(f"/v1/lists/{list_id}", {"fields": "id", "expand": "contacts", "_tz": "Asia/Tokyo"}).get_json()
    assert set(body) == {"id", "_links", "_embedded"}
    (inner,) = body["_embedded"]["contacts"]["_embedded"]["contacts"]
    assert inner["first_name"] == "Ann"
    assert inner["creation_time"].endswith("+0900")


def test_expand_of_an_empty_page(api: Client) -> None:
    assert items(api.get("/v1/lists?expand=contacts"), "lists") == []
    assert api.get("/v1/lists?expand=contacts&limit=0").get_json()["size"] == 0


def test_a_page_takes_as_many_statements_for_many_lists_as_for_one(
    tenant: Tenant, api: Client, count_statements: Callable[[], Any]
) -> None:
    def cost(query: str) -> int:
        with count_statements() as counted:
            assert api.get(f"/v1/lists{query}").status_code == 200
        return int(counted.count)

    tenant.new_contact(tenant.add_list())
    costs = cost(""), cost("?expand=contacts")
    for _ in range(20):
        tenant.new_contact(tenant.add_list())
    assert (cost(""), cost("?expand=contacts")) == costs
