"""Updating contacts, single and bulk (docs/contacts.md#attributes)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update

from app.clock import this_second, timestamp
from app.db.models import Contact
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, conflict, invalid, not_found
from tests.support.contacts import contact, contacts_path, find
from tests.support.tenants import Tenant, new_email, new_mobile
from tests.support.testing import refreshed

LONG_AGO = this_second().replace(year=2020)


@pytest.fixture
def path(customers: int) -> str:
    return contacts_path(customers)


@pytest.fixture
def ann(tenant: Tenant, customers: int) -> dict[str, Any]:
    """A contact that was last changed long ago."""
    created = tenant.new_contact(
        customers, email=new_email(), mobile=new_mobile(), first_name="Ann", plan="gold", score=3, born="1990-02-28"
    )
    age(tenant, created["id"])
    return contact(tenant, customers, created["id"])


def age(tenant: Tenant, *contact_ids: int) -> None:
    """Moves the last change of contacts years into the past."""
    with tenant.services.database.write() as transaction:
        transaction.execute(
            update(Contact)
            .where(Contact.id.in_(contact_ids))
            .values(creation_time=LONG_AGO, last_modified_time=LONG_AGO, double_opt_in_time=None)
        )


def is_moved(body: dict[str, Any]) -> bool:
    """Whether last_modified_time has changed since `age`."""
    return bool(body["last_modified_time"] > timestamp(LONG_AGO))


# ---------------------------------------------------------------------------------------------- single


def test_the_answer_is_the_updated_contact(tenant: Tenant, api: Client, path: str, customers: int, ann: Any) -> None:
    response = api.patch(f"{path}/{ann['id']}", {"first_name": "Anna", "score": 4.5, "is_active": False})
    body = response.get_json()
    assert response.status_code == 200
    assert is_moved(body)
    expected = {**ann, "first_name": "Anna", "score": 4.5, "is_active": False}
    assert body == {**expected, "last_modified_time": body["last_modified_time"]}
    assert contact(tenant, customers, ann["id"]) == body


def test_null_clears_an_attribute(api: Client, path: str, ann: Any) -> None:
    nulls = dict.fromkeys(["email", "mobile", "first_name", "plan", "score", "born"])
    body = api.patch(f"{path}/{ann['id']}", nulls).get_json()
    assert {name: body[name] for name in nulls} == nulls
    assert body["subscribed"] == {"email": True, "mobile": True}


def test_an_empty_address_clears_it(api: Client, path: str, ann: Any) -> None:
    assert api.patch(f"{path}/{ann['id']}", {"email": ""}).get_json()["email"] is None


def test_absent_attributes_are_not_changed(api: Client, path: str, ann: Any) -> None:
    body = api.patch(f"{path}/{ann['id']}", {"subscribed": {"mobile": False}}).get_json()
    assert body["subscribed"] == {"email": True, "mobile": False}
    assert {**body, "subscribed": ann["subscribed"], "last_modified_time": ann["last_modified_time"]} == ann


@each("again", [{}, {"subscribed": {}}, {"is_active": True}, {"double_opt_in": False}, {"score": 3.0}])
def test_an_empty_update_does_not_change_the_time(api: Client, path: str, ann: Any, again: Any) -> None:
    response = api.patch(f"{path}/{ann['id']}", again)
    assert (response.status_code, response.get_json()) == (200, ann)


def test_an_update_with_the_same_values_does_not_change_the_time(api: Client, path: str, ann: Any) -> None:
    same = {name: ann[name] for name in ("email", "mobile", "first_name", "plan", "subscribed", "last_name")}
    assert api.patch(f"{path}/{ann['id']}", same).get_json() == ann


def test_the_case_of_an_email_is_a_change(api: Client, path: str, ann: Any) -> None:
    body = api.patch(f"{path}/{ann['id']}", {"email": ann["email"].upper()}).get_json()
    assert (body["email"], is_moved(body)) == (ann["email"].upper(), True)


def test_double_opt_in_sets_its_time_once(tenant: Tenant, api: Client, path: str, ann: Any) -> None:
    first = api.patch(f"{path}/{ann['id']}", {"double_opt_in": True}).get_json()
    assert (first["double_opt_in"], first["double_opt_in_time"]) == (True, first["last_modified_time"])
    age(tenant, ann["id"])
    again = api.patch(f"{path}/{ann['id']}", {"double_opt_in": True}).get_json()
    assert (again["double_opt_in"], again["double_opt_in_time"], is_moved(again)) == (True, None, False)


def test_double_opt_in_cannot_be_reset(tenant: Tenant, api: Client, path: str, customers: int, ann: Any) -> None:
    api.patch(f"{path}/{ann['id']}", {"double_opt_in": True})
    before = contact(tenant, customers, ann["id"])
    wrong = {"double_opt_in": False, "first_name": "Other"}
    invalid(api.patch(f"{path}/{ann['id']}", wrong), "cannot_reset_double_opt_in", field="double_opt_in")
    place = {"collection": "contacts", "index": 0, "field": "double_opt_in"}
    invalid(api.patch(path, {"contacts": [{"id": ann["id"], **wrong}]}), "cannot_reset_double_opt_in", **place)
    assert contact(tenant, customers, ann["id"]) == before


WRONG = {
    "id": ("id", 5, "unexpected_field"),
    "blocked": ("blocked", {"email": False}, "unexpected_field"),
    "list_id": ("list_id", 5, "unexpected_field"),
    "_links": ("_links", {}, "unexpected_field"),
    "double_opt_in_time": ("double_opt_in_time", None, "unexpected_field"),
    "unknown": ("nonsense", 5, "unexpected_field"),
    "is_active null": ("is_active", None, "invalid_boolean"),
    "double_opt_in null": ("double_opt_in", None, "invalid_boolean"),
    "subscribed null": ("subscribed", None, "invalid_object"),
    "email": ("email", "plain", "invalid_email_address"),
    "mobile": ("mobile", 61411111111, "invalid_string"),
    "date": ("born", "1990-02-30", "invalid_date"),
    "option": ("plan", "silver", "invalid_string"),
    "number": ("score", "many", "invalid_number"),
}


@each("case", list(WRONG))
def test_errors_of_fields(api: Client, path: str, ann: Any, case: str) -> None:
    name, value, code = WRONG[case]
    invalid(api.patch(f"{path}/{ann['id']}", {name: value}), code, field=name)
    if name != "id":
        place = {"collection": "contacts", "index": 0, "field": name}
        invalid(api.patch(path, {"contacts": [{"id": ann["id"], name: value}]}), code, **place)


def test_the_id_of_the_path_may_be_repeated_in_the_body(api: Client, path: str, ann: Any) -> None:
    changed = api.patch(f"{path}/{ann['id']}", {"id": ann["id"], "first_name": "Annie"}).get_json()
    assert (changed["id"], changed["first_name"]) == (ann["id"], "Annie")
    for other in (ann["id"] + 1, str(ann["id"]), float(ann["id"]), True, None):
        invalid(api.patch(f"{path}/{ann['id']}", {"id": other}), "unexpected_field", field="id")


def test_a_conflicting_email_is_refused(tenant: Tenant, api: Client, path: str, customers: int, ann: Any) -> None:
    existing = tenant.new_contact(customers, email=new_email())
    body = conflict(
        api.patch(f"{path}/{ann['id']}", {"email": existing["email"].upper()}), field="email", collection=None
    )
    assert body["fields"] == {"email": {"contact_id": existing["id"]}}
    assert contact(tenant, customers, ann["id"]) == ann


def test_a_mobile_conflicts_where_it_is_the_identifier(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(fields=(("Mobile", "Mobile Phone"),))
    existing, changed = (tenant.new_contact(list_id, mobile=new_mobile()) for _ in range(2))
    body = conflict(
        api.patch(f"{contacts_path(list_id)}/{changed['id']}", {"mobile": existing["mobile"]}), field="mobile"
    )
    assert body["fields"] == {"mobile": {"contact_id": existing["id"]}}


def test_duplicates_are_accepted_where_the_list_allows_them(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(allow_duplicates=True)
    first, second = (tenant.new_contact(list_id, email=new_email()) for _ in range(2))
    response = api.patch(f"{contacts_path(list_id)}/{second['id']}", {"email": first["email"]})
    assert response.get_json()["email"] == first["email"]


def test_addresses_without_a_field_in_the_list_are_refused(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(fields=(("Email", "Email"),))
    path, created = contacts_path(list_id), tenant.new_contact(list_id)
    body = {"mobile": new_mobile()}
    invalid(api.patch(f"{path}/{created['id']}", body), "field_mobile_not_in_list", field="mobile")
    place = {"collection": "contacts", "index": 0, "field": "mobile"}
    invalid(api.patch(path, {"contacts": [{"id": created["id"], **body}]}), "field_mobile_not_in_list", **place)
    assert api.patch(f"{path}/{created['id']}", {"mobile": None}).get_json() == created


def test_a_reserved_field_is_ignored(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(fields=(("Email", "Email"), ("Offset", "Number")))
    created = tenant.new_contact(list_id)
    assert api.patch(f"{contacts_path(list_id)}/{created['id']}", {"offset": "anything"}).get_json() == created


# ---------------------------------------------------------------------------------------------- bulk


def test_bulk_changes_only_the_listed_attributes_and_answers_without_a_body(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    contacts = [tenant.new_contact(customers, email=new_email(), score=number) for number in range(3)]
    age(tenant, *(created["id"] for created in contacts))
    elements = [
        {"id": contacts[0]["id"], "score": 10},
        {"id": contacts[2]["id"], "email": None},
        {"id": contacts[1]["id"]},
    ]
    response = api.patch(path, {"contacts": elements})
    assert (response.status_code, response.data) == (204, b"")
    bodies = [contact(tenant, customers, created["id"]) for created in contacts]
    assert [(body["score"], body["email"], is_moved(body)) for body in bodies] == [
        (10, contacts[0]["email"], True),
        (1, contacts[1]["email"], False),
        (2, None, True),
    ]


@each(
    ("body", "code", "field"),
    [
        ({}, "required", "contacts"),
        ({"contacts": []}, "not_empty", "contacts"),
        ({"contacts": {}}, "invalid_array", "contacts"),
        ({"contacts": [{"id": 1}] * 1001}, "too_long", "contacts"),
        ({"first_name": "x", "contacts": [{"id": 1}]}, "unexpected_field", "first_name"),
    ],
)
def test_invalid_bulk_bodies_are_refused(api: Client, path: str, body: Any, code: str, field: str) -> None:
    invalid(api.patch(path, body), code, field=field, collection=None)


@each(
    ("element", "code", "field"),
    [
        ({}, "required", "id"),
        ({"id": None}, "invalid_integer", "id"),
        ({"id": "5"}, "invalid_integer", "id"),
        ({"id": 1.5}, "invalid_integer", "id"),
        ({"id": True}, "invalid_integer", "id"),
        ("x", "invalid_object", None),
        ({"id": 999_999_999}, "invalid_id", "id"),
        ({"id": -1}, "invalid_id", "id"),
    ],
)
def test_invalid_elements_are_refused(api: Client, path: str, element: Any, code: str, field: str | None) -> None:
    body = {"contacts": [element]}
    invalid(api.patch(path, body), code, collection="contacts", index=0, field=field)


def test_an_id_beyond_64_bits_is_unknown(api: Client, path: str) -> None:
    body = b'{"contacts": [{"id": 1000000000000000000000000000000}]}'
    invalid(api.raw("PATCH", path, body), "invalid_id", collection="contacts", index=0, field="id")


def test_contacts_of_other_lists_and_accounts_are_unknown(
    tenant: Tenant, other_tenant: Tenant, api: Client, path: str
) -> None:
    elsewhere, theirs = tenant.new_contact(tenant.add_list()), other_tenant.new_contact(other_tenant.add_list())
    body = invalid(
        api.patch(path, {"contacts": [{"id": foreign["id"], "score": 1} for foreign in (elsewhere, theirs)]}),
        "invalid_id",
    )
    assert [(error["code"], error["index"]) for error in body["_embedded"]["errors"]] == [
        ("invalid_id", 0),
        ("invalid_id", 1),
    ]
    assert contact(other_tenant, theirs["list_id"], theirs["id"]) == theirs


def test_the_same_id_twice_is_a_conflict(tenant: Tenant, api: Client, path: str, customers: int, ann: Any) -> None:
    elements = [{"id": ann["id"], "score": 1}, {"id": ann["id"], "score": 2}]
    body = conflict(api.patch(path, {"contacts": elements}), collection="contacts", index=1, field="id")
    assert body["fields"] == {"id": {"contact_id": ann["id"]}}
    assert contact(tenant, customers, ann["id"]) == ann


def test_one_invalid_element_writes_nothing(tenant: Tenant, api: Client, path: str, customers: int, ann: Any) -> None:
    elements = [{"id": ann["id"], "score": 1}, {"id": 999_999_999}]
    invalid(api.patch(path, {"contacts": elements}), "invalid_id", index=1)
    assert contact(tenant, customers, ann["id"]) == ann


@pytest.fixture
def three(tenant: Tenant, customers: int) -> list[dict[str, Any]]:
    return [tenant.new_contact(customers, email=new_email()) for _ in range(3)]


def emails(tenant: Tenant, contacts: list[dict[str, Any]]) -> list[str | None]:
    return [contact(tenant, listed["list_id"], listed["id"])["email"] for listed in contacts]


def test_a_bulk_update_can_rotate_identifiers(
    tenant: Tenant, api: Client, path: str, three: list[dict[str, Any]]
) -> None:
    """Conflicts of one bulk update are judged by its end state."""
    a, b, c = (created["email"] for created in three)
    elements = [{"id": created["id"], "email": email} for created, email in zip(three, (b, c, a), strict=True)]
    assert api.patch(path, {"contacts": elements}).status_code == 204
    assert emails(tenant, three) == [b, c, a]


def test_a_bulk_update_can_pass_an_identifier_on(
    tenant: Tenant, api: Client, path: str, three: list[dict[str, Any]]
) -> None:
    first, second, third = three
    elements = [{"id": second["id"], "email": first["email"]}, {"id": first["id"], "email": None}]
    assert api.patch(path, {"contacts": elements}).status_code == 204
    assert emails(tenant, three) == [None, first["email"], third["email"]]


def test_an_identifier_that_another_contact_keeps_is_a_conflict(
    tenant: Tenant, api: Client, path: str, three: list[dict[str, Any]]
) -> None:
    first, second, third = three
    elements = [{"id": first["id"], "score": 1}, {"id": second["id"], "email": first["email"]}]
    body = conflict(api.patch(path, {"contacts": elements}), collection="contacts", index=1, field="email")
    assert body["fields"] == {"email": {"contact_id": first["id"]}}
    elements = [{"id": created["id"], "email": "New@example.com"} for created in (third, second)]
    body = conflict(api.patch(path, {"contacts": elements}), collection="contacts", index=1, field="email")
    assert body["fields"] == {"email": {}}
    assert emails(tenant, three) == [created["email"] for created in three]


def test_1000_contacts_can_be_updated_at_once(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    api.post(path, {"contacts": [{"email": f"bulk{number}@example.com"} for number in range(1000)]})
    contacts = api.get(path, {"limit": 1000}).get_json()["_embedded"]["contacts"]
    shifted = [{"id": created["id"], "email": contacts[place - 1]["email"]} for place, created in enumerate(contacts)]
    assert api.patch(path, {"contacts": shifted}).status_code == 204
    assert find(tenant, customers, email=contacts[0]["email"])[0]["id"] == contacts[1]["id"]


# ---------------------------------------------------------------------------------------------- lists, keys, order


def test_contacts_of_a_system_list_cannot_be_updated(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(system=True)
    moment = this_second()
    inside = tenant.add(Contact, list_id=list_id, creation_time=moment, last_modified_time=moment, values={})
    path = contacts_path(list_id)
    invalid(api.patch(f"{path}/{inside}", {"first_name": "x"}), "list_not_mutable")
    invalid(api.patch(f"{path}/{inside}", {}), "list_not_mutable")
    invalid(api.patch(path, {"contacts": [{"id": inside}]}), "list_not_mutable", collection=None)


def test_unknown_contacts_are_not_found(tenant: Tenant, other_tenant: Tenant, api: Client, path: str) -> None:
    theirs = other_tenant.new_contact(other_tenant.add_list())
    for segment in (theirs["id"], 0, "abc"):
        not_found(api.patch(f"{path}/{segment}", {"first_name": "x"}))
    not_found(api.patch(contacts_path(theirs["list_id"]), {"contacts": [{"id": theirs["id"]}]}))
    not_found(api.raw("PATCH", f"{path}/999999999?nonsense=1", b"{not json"))


def test_order_of_checks(api: Client, path: str, ann: Any) -> None:
    for target in (path, f"{path}/{ann['id']}"):
        bad_query(api.raw("PATCH", f"{target}?nonsense=1", b"{not json"), "parameter_not_supported")
        bad_query(api.raw("PATCH", f"{target}?remove_unsubscribers=any", b"{not json"), "parameter_not_available")
        check_error(api.raw("PATCH", target, b"{not json"), 400, "invalid_request")
        check_error(api.raw("PATCH", target, b""), 400, "invalid_request")
        invalid(api.raw("PATCH", target, b"[]"), "invalid_object")


def test_updating_requires_the_standard_level(tenant: Tenant, path: str, ann: Any) -> None:
    check_error(tenant.client("limited").patch(f"{path}/{ann['id']}", {}), 403, "permission_denied")


def test_ids_beyond_64_bits_are_reported_as_unknown(api: Client, path: str, ann: Any) -> None:
    elements = [{"id": 10**20}, {"id": ann["id"]}, {"id": 2**63}, {"id": -1}]
    body = invalid(
        api.raw("PATCH", path, json.dumps({"contacts": elements}).encode()),
        "invalid_id",
        collection="contacts",
        index=0,
        field="id",
    )
    list_id = path.split("/")[3]
    assert [(error["index"], error["developer_message"]) for error in body["_embedded"]["errors"]] == [
        (0, f"There is no contact with an id beyond 64 bits in list {list_id}."),
        (2, f"There is no contact with an id beyond 64 bits in list {list_id}."),
        (3, f"id: There is no contact -1 in list {list_id}."),
    ]


def test_a_test_key_is_told_the_id_of_the_original_list(tenant: Tenant, customers: int) -> None:
    body = invalid(refreshed(tenant).api.patch(contacts_path(customers), {"contacts": [{"id": 1}]}), "invalid_id")
    assert body["developer_message"] == f"id: There is no contact 1 in list {customers}."


@pytest.mark.parametrize("bulk", [False, True])
def test_an_attribute_without_a_name_is_named_in_its_error(api: Client, path: str, bulk: bool) -> None:
    if bulk:
        body = invalid(api.post(path, {"contacts": [{"": 1}]}), "unexpected_field", collection="contacts", index=0)
    else:
        body = invalid(api.post(path, {"": 1}), "unexpected_field")
    assert body["field"] == ""


EMPTY = ("first_name", "plan", "interests", "born", "visit", "reply_to")


def test_an_empty_string_clears_every_field_whose_values_are_strings(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    values = {"first_name": "Ann", "plan": "gold", "interests": "tea", "born": "1990-02-28", "visit": "2026-01-31"}
    created = tenant.new_contact(customers, **values, reply_to="x", spend=5)
    cleared = api.patch(f"{path}/{created['id']}", dict.fromkeys(EMPTY, "")).get_json()
    assert [cleared[name] for name in (*EMPTY, "spend")] == [None] * 6 + [5]
    invalid(api.patch(f"{path}/{created['id']}", {"spend": ""}), "invalid_number", field="spend")
    invalid(api.patch(path, {"contacts": [{"id": created["id"], "score": ""}]}), "invalid_number", field="score")
