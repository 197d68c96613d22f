"""Deleting contacts, single and bulk (docs/contacts.md#deleting)."""

from __future__ import annotations

from typing import Any

import pytest

from app.clock import this_second
from app.db.models import Contact
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, ids, invalid, not_found
from tests.support.contacts import contact, contacts_path, count, entries
from tests.support.tenants import Tenant, new_email


@pytest.fixture
def path(customers: int) -> str:
    return contacts_path(customers)


@pytest.fixture
def contact_ids(tenant: Tenant, customers: int) -> list[int]:
    """The ids of five contacts, ascending."""
    return [tenant.new_contact(customers, score=number)["id"] for number in range(5)]


def remaining_ids(api: Client, path: str) -> list[int]:
    return sorted(ids(api.get(path)))


def test_a_deleted_contact_does_not_exist(api: Client, path: str, contact_ids: list[int]) -> None:
    response = api.delete(f"{path}/{contact_ids[0]}")
    assert (response.status_code, response.data) == (204, b"")
    not_found(api.get(f"{path}/{contact_ids[0]}"))
    not_found(api.delete(f"{path}/{contact_ids[0]}"))
    assert remaining_ids(api, path) == contact_ids[1:]


def test_bulk_by_one_id(api: Client, path: str, contact_ids: list[int]) -> None:
    response = api.delete(path, {"id": contact_ids[0]})
    assert (response.status_code, response.data) == (204, b"")
    assert remaining_ids(api, path) == contact_ids[1:]


def test_bulk_by_several_ids_ignores_unknown_ids(
    tenant: Tenant, other_tenant: Tenant, api: Client, path: str, contact_ids: list[int]
) -> None:
    elsewhere, theirs = tenant.new_contact(tenant.add_list()), other_tenant.new_contact(other_tenant.add_list())
    named = [contact_ids[0], contact_ids[2], contact_ids[2], elsewhere["id"], theirs["id"], 999_999_999, 10**30]
    assert api.delete(path, {"id:in": ",".join(map(str, named))}).status_code == 204
    assert remaining_ids(api, path) == [contact_ids[1], contact_ids[3], contact_ids[4]]
    assert contact(tenant, elsewhere["list_id"], elsewhere["id"]) == elsewhere
    assert contact(other_tenant, theirs["list_id"], theirs["id"]) == theirs


def test_several_parameters_are_combined_by_and(api: Client, path: str, contact_ids: list[int]) -> None:
    params = [("id:in", f"{contact_ids[0]},{contact_ids[1]}"), ("id:in", f"{contact_ids[1]},{contact_ids[2]}")]
    assert api.delete(path, params).status_code == 204
    assert remaining_ids(api, path) == [contact_ids[0], *contact_ids[2:]]


def test_a_delete_may_match_nothing(api: Client, path: str, contact_ids: list[int]) -> None:
    assert api.delete(path, {"id": 999_999_999}).status_code == 204
    assert remaining_ids(api, path) == contact_ids


def test_1000_contacts_can_be_deleted_at_once(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    api.post(path, {"contacts": [{}] * 1000})
    contact_ids = ids(api.get(path, {"limit": 1000, "fields": "id"}))
    assert api.delete(path, {"id:in": ",".join(map(str, contact_ids))}).status_code == 204
    assert count(tenant, customers) == 0


@each(
    ("params", "code"),
    [
        ({"id:in": ",".join(map(str, range(1, 1002)))}, "invalid_filter_list"),
        ({"id:in": "1,abc"}, "invalid_filter_list"),
        ({"id:in": "1,,2"}, "invalid_filter_list"),
        ({"id:in": ""}, "invalid_filter_list"),
        ({"id:in": "1..5"}, "invalid_filter_list"),
        ({"id": "abc"}, "invalid_query_syntax"),
        ({"id": ""}, "invalid_query_syntax"),
        ({"id:ne": "1"}, "invalid_operator"),
        ({"id:": "1"}, "invalid_operator"),
        ({"email": "a@example.com"}, "parameter_not_available"),
        ({"score:in": "1,2"}, "parameter_not_available"),
        ({"limit": "1"}, "parameter_not_available"),
        ({"remove_unsubscribers": "any"}, "parameter_not_available"),
        ({"nonsense": "1"}, "parameter_not_supported"),
    ],
)
def test_invalid_queries_are_refused(
    api: Client, path: str, contact_ids: list[int], params: dict[str, str], code: str
) -> None:
    bad_query(api.delete(path, params), code)
    assert remaining_ids(api, path) == contact_ids


def test_an_id_is_required(api: Client, path: str, contact_ids: list[int]) -> None:
    invalid(api.delete(path), "filter_id_required")
    assert remaining_ids(api, path) == contact_ids


def test_a_single_delete_accepts_no_query(api: Client, path: str, contact_ids: list[int]) -> None:
    bad_query(api.delete(f"{path}/{contact_ids[0]}", {"id": contact_ids[0]}), "parameter_not_available")
    bad_query(api.delete(f"{path}/{contact_ids[0]}", {"nonsense": 1}), "parameter_not_supported")
    assert remaining_ids(api, path) == contact_ids


def test_contacts_of_a_system_list_cannot_be_deleted(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(system=True)
    moment = this_second()
    inside = tenant.add(Contact, list_id=list_id, creation_time=moment, last_modified_time=moment, values={})
    path = contacts_path(list_id)
    invalid(api.delete(f"{path}/{inside}"), "list_not_mutable")
    invalid(api.delete(path, {"id": inside}), "list_not_mutable")
    body = invalid(api.delete(path), "list_not_mutable")
    assert [error["code"] for error in body["_embedded"]["errors"]] == ["list_not_mutable", "filter_id_required"]
    assert remaining_ids(api, path) == [inside]


def test_unknown_contacts_are_not_found(tenant: Tenant, other_tenant: Tenant, api: Client, path: str) -> None:
    theirs = other_tenant.new_contact(other_tenant.add_list())
    for segment in (theirs["id"], 0, "abc"):
        not_found(api.delete(f"{path}/{segment}"))
    not_found(api.delete(f"{contacts_path(theirs['list_id'])}/{theirs['id']}"))
    not_found(api.delete(contacts_path(theirs["list_id"]), {"id": theirs["id"]}))
    not_found(api.delete(contacts_path(theirs["list_id"]), {"nonsense": 1}))
    assert contact(other_tenant, theirs["list_id"], theirs["id"]) == theirs


def test_the_identifier_of_a_deleted_contact_is_free(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    first = tenant.new_contact(customers, email=new_email())
    api.delete(f"{path}/{first['id']}")
    assert tenant.new_contact(customers, email=first["email"])["id"] > first["id"]


def test_an_unsubscribed_address_stays_unsubscribed_after_its_contact(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    first = tenant.new_contact(customers, email=new_email(), subscribed={"email": False})
    api.delete(f"{path}/{first['id']}")
    assert entries(tenant) == {("email", first["email"], customers)}
    again: dict[str, Any] = tenant.new_contact(customers, email=first["email"].upper())
    assert again["subscribed"] == {"email": False, "mobile": True}


def test_deleting_requires_the_standard_level(tenant: Tenant, path: str, contact_ids: list[int]) -> None:
    check_error(tenant.client("limited").delete(f"{path}/{contact_ids[0]}"), 403, "permission_denied")
