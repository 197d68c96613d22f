"""Creating contacts, single and multiple form (docs/contacts.md#attributes)."""

from __future__ import annotations

from typing import Any

import pytest

from app.db.models import Contact
from app.lists.fields import FIELD_TYPES, field_key
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, conflict, invalid, items, not_found
from tests.support.contacts import contact, contacts_path, count, entries, find, unsubscribe
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email, new_mobile, unique

ATTRIBUTES = [
    "id",
    "list_id",
    "creation_time",
    "last_modified_time",
    "email",
    "mobile",
    "subscribed",
    "blocked",
    "is_active",
    "double_opt_in",
    "double_opt_in_time",
]
FIELDS = ["first_name", "last_name", "plan", "interests", "spend", "score", "born", "visit", "reply_to"]


@pytest.fixture
def path(customers: int) -> str:
    return contacts_path(customers)


@pytest.fixture
def email_only(tenant: Tenant) -> int:
    return tenant.add_list(fields=(("Work Mail", "Email"), ("First Name", "First Name")))


@pytest.fixture
def mobile_only(tenant: Tenant) -> int:
    return tenant.add_list(fields=(("Cell", "Mobile Phone"), ("First Name", "First Name")))


# ---------------------------------------------------------------------------------------------- single form


def test_the_answer_is_the_new_contact_with_every_property(tenant: Tenant, path: str, customers: int) -> None:
    email, mobile = new_email(), new_mobile()
    body = tenant.new_contact(customers, email=email, mobile=mobile, first_name="Ann")
    assert list(body) == [*ATTRIBUTES, *FIELDS, "_links"]
    assert (body["list_id"], body["email"], body["mobile"], body["first_name"]) == (customers, email, mobile, "Ann")
    assert body["_links"] == {
        "self": {"href": f"{path}/{body['id']}"},
        "list": {"href": f"/v1/lists/{customers}"},
    }
    assert contact(tenant, customers, body["id"]) == body


def test_defaults_of_a_new_contact(tenant: Tenant, customers: int) -> None:
    body = tenant.new_contact(customers)
    assert body["subscribed"] == {"email": True, "mobile": True}
    assert body["blocked"] == {"email": False, "mobile": False}
    assert (body["is_active"], body["double_opt_in"], body["double_opt_in_time"]) == (True, False, None)
    assert [body[name] for name in ("email", "mobile", *FIELDS)] == [None] * 11
    assert body["creation_time"] == body["last_modified_time"]


def test_null_is_the_same_as_absence(tenant: Tenant, customers: int) -> None:
    nulls = dict.fromkeys(["email", "mobile", *FIELDS])
    assert tenant.new_contact(customers, **nulls)["id"] != tenant.new_contact(customers, **nulls)["id"]


def test_an_empty_address_is_null(tenant: Tenant, customers: int) -> None:
    body = tenant.new_contact(customers, email="", mobile="")
    assert (body["email"], body["mobile"]) == (None, None)


def test_an_empty_string_is_null_for_fields_whose_values_are_strings(
    tenant: Tenant, api: Client, path: str, customers: int
) -> None:
    fields = (("Email", "Email"), *((type_, type_) for type_ in FIELD_TYPES if type_ not in ("Email", "Mobile Phone")))
    list_id = tenant.add_list(fields=fields)
    keys = {field_key(type_): type_ for _, type_ in fields[1:] if type_ not in ("Currency", "Number")}
    contact_body = tenant.new_contact(list_id, **dict.fromkeys(keys, ""))
    assert {contact_body[key] for key in keys} == {None}
    with tenant.services.database.read() as session:
        assert session.get_one(Contact, contact_body["id"]).values == {}
    assert api.post(path, {"contacts": [dict.fromkeys(("plan", "born", "visit"), "")]}).status_code == 204
    for key in ("spend", "score"):
        invalid(api.post(path, {key: ""}), "invalid_number", field=key)


def test_every_type_of_value_is_returned_as_written(tenant: Tenant, customers: int) -> None:
    values = {
        "first_name": "Zoë 🐝",
        "last_name": " ",
        "plan": "gold",
        "interests": "tea,cake",
        "spend": 12.75,
        "score": 3,
        "born": "1990-02-28",
        "visit": "2026-01-31T08:30:00",
        "reply_to": "x" * 10_000,
    }
    body = tenant.new_contact(customers, **values)
    assert {name: body[name] for name in values} == values
    assert contact(tenant, customers, body["id"]) == body


@each("number", [0, -1, 2**53 + 1, 2**63 - 1, 1e22, 0.1, -2.5e-7, 1e300])
def test_numbers_are_stored_exactly(tenant: Tenant, customers: int, number: float) -> None:
    body = tenant.new_contact(customers, score=number)
    assert contact(tenant, customers, body["id"])["score"] == number == body["score"]


def test_writable_flags(tenant: Tenant, customers: int) -> None:
    body = tenant.new_contact(
        customers, email=new_email(), subscribed={"email": False}, is_active=False, double_opt_in=True
    )
    assert body["subscribed"] == {"email": False, "mobile": True}
    assert body["is_active"] is False
    assert body["double_opt_in"] is True
    assert body["double_opt_in_time"] == body["creation_time"]


def test_address_fields_are_attributes_whatever_their_names(
    tenant: Tenant, api: Client, email_only: int, mobile_only: int
) -> None:
    email, mobile = new_email(), new_mobile()
    assert tenant.new_contact(email_only, email=email)["email"] == email
    body = tenant.new_contact(mobile_only, mobile=mobile)
    assert body["mobile"] == mobile
    assert "cell" not in body
    invalid(api.post(contacts_path(mobile_only), {"cell": mobile}), "unexpected_field", field="cell")


def test_mobiles_may_repeat_where_the_email_is_the_identifier(tenant: Tenant, customers: int) -> None:
    mobile = new_mobile()
    first = tenant.new_contact(customers, email=new_email(), mobile=mobile)
    assert tenant.new_contact(customers, email=new_email(), mobile=mobile)["id"] != first["id"]


def test_emails_are_unique_within_a_list(tenant: Tenant, customers: int) -> None:
    email = new_email()
    tenant.new_contact(customers, email=email)
    tenant.new_contact(tenant.add_list(), email=email)


def test_a_list_may_allow_duplicates(tenant: Tenant) -> None:
    list_id, email = tenant.add_list(allow_duplicates=True), new_email()
    tenant.new_contact(list_id, email=email)
    tenant.new_contact(list_id, email=email.upper())
    assert (
        tenant.api.post(contacts_path(list_id), {"contacts": [{"email": email}, {"email": email}]}).status_code == 204
    )
    assert count(tenant, list_id, email=email) == 4


def test_fields_with_reserved_keys_are_neither_shown_nor_written(tenant: Tenant, api: Client) -> None:
    fields = (*PLAIN_FIELDS, ("Limit", "Number"), ("ID", "Number"), ("Is Active", "Text Field"), ("_x", "Text Field"))
    list_id = tenant.add_list(fields=fields)
    body = tenant.new_contact(list_id, limit="no number even", id=5, is_active=False, x="fine")
    assert list(body) == [*ATTRIBUTES, "first_name", "x", "_links"]
    assert body["is_active"] is False
    bad_query(api.get(contacts_path(list_id), {"fields": "limit"}), "invalid_query_syntax")
    invalid(api.post(contacts_path(list_id), {"is_active": "text"}), "invalid_boolean", field="is_active")


def test_a_text_field_called_email_is_not_the_email(tenant: Tenant, api: Client) -> None:
    list_id = tenant.add_list(fields=(("Email", "Text Field"), ("Mobile", "Mobile Phone")))
    invalid(api.post(contacts_path(list_id), {"email": new_email()}), "field_email_not_in_list", field="email")
    assert tenant.new_contact(list_id)["email"] is None


# ---------------------------------------------------------------------------------------------- field errors

WRONG: dict[str, tuple[str, Any, str]] = {
    "text of a number": ("first_name", 5, "invalid_string"),
    "too long": ("first_name", "x" * 10_001, "too_long"),
    "null byte": ("first_name", "a\x00b", "invalid_string"),
    "no option": ("plan", "silver", "invalid_string"),
    "one no option": ("interests", "tea,beer", "invalid_string"),
    "number as text": ("spend", "12", "invalid_number"),
    "boolean number": ("score", True, "invalid_number"),
    "no date": ("born", "yesterday", "invalid_iso_date"),
    "no such day": ("born", "1990-02-30", "invalid_date"),
    "no datetime": ("visit", "noon", "invalid_iso_date_time"),
    "hour 25": ("visit", "2026-01-31T25:00:00", "invalid_date_time"),
    "no email": ("email", "plain", "invalid_email_address"),
    "email too long": ("email", "x" * 10_100 + "@example.com", "invalid_email_address"),
    "email of a number": ("email", 5, "invalid_string"),
    "no mobile": ("mobile", "+61411111111", "invalid_mobile_address"),
    "mobile of a number": ("mobile", 61411111111, "invalid_string"),
    "is_active null": ("is_active", None, "invalid_boolean"),
    "is_active number": ("is_active", 1, "invalid_boolean"),
    "double_opt_in text": ("double_opt_in", "true", "invalid_boolean"),
    "double_opt_in null": ("double_opt_in", None, "invalid_boolean"),
    "subscribed text": ("subscribed", "yes", "invalid_object"),
    "subscribed array": ("subscribed", [], "invalid_object"),
    "subscribed null": ("subscribed", None, "invalid_object"),
    "unknown": ("nonsense", None, "unexpected_field"),
    "id": ("id", 5, "unexpected_field"),
    "list_id": ("list_id", 5, "unexpected_field"),
    "creation_time": ("creation_time", "2026-01-01T00:00:00Z", "unexpected_field"),
    "double_opt_in_time": ("double_opt_in_time", None, "unexpected_field"),
    "blocked": ("blocked", {"email": True}, "unexpected_field"),
    "_links": ("_links", {}, "unexpected_field"),
}


@each("case", list(WRONG))
def test_errors_of_fields(api: Client, path: str, case: str) -> None:
    name, value, code = WRONG[case]
    body = invalid(api.post(path, {name: value}), code, field=name)
    assert name in body["developer_message"]
    body = invalid(api.post(path, {"contacts": [{}, {name: value}]}), code, collection="contacts", index=1, field=name)
    assert name in body["developer_message"]


@each(
    ("member", "value", "code"),
    [("email", None, "invalid_boolean"), ("mobile", 1, "invalid_boolean"), ("fax", True, "unexpected_field")],
)
def test_members_of_subscribed_are_booleans(api: Client, path: str, member: str, value: Any, code: str) -> None:
    wrong = {"subscribed": {member: value}}
    invalid(api.post(path, wrong), code, field=f"subscribed.{member}")
    invalid(api.post(path, {"contacts": [wrong]}), code, collection="contacts", index=0, field=f"subscribed.{member}")


def test_all_errors_are_listed_in_document_order(api: Client, path: str) -> None:
    elements = [
        {"email": new_email()},
        {"is_active": "x", "email": "nope"},
        5,
        {"subscribed": {"email": 1}, "born": "x"},
    ]
    body = invalid(api.post(path, {"contacts": elements}), "invalid_boolean", collection="contacts", index=1)
    assert [(error["code"], error["index"], error["field"]) for error in body["_embedded"]["errors"]] == [
        ("invalid_boolean", 1, "is_active"),
        ("invalid_email_address", 1, "email"),
        ("invalid_object", 2, None),
        ("invalid_boolean", 3, "subscribed.email"),
        ("invalid_iso_date", 3, "born"),
    ]


# ---------------------------------------------------------------------------------------------- multiple form


def test_the_multiple_form_creates_in_order_and_answers_without_a_body(
    tenant: Tenant, api: Client, customers: int
) -> None:
    emails = [new_email() for _ in range(3)]
    response = api.post(contacts_path(customers), {"contacts": [{"email": email, "score": 1} for email in emails]})
    assert (response.status_code, response.data) == (204, b"")
    contacts = find(tenant, customers, score=1)
    assert [created["email"] for created in contacts] == emails[::-1]


@each(
    ("contacts", "code"),
    [
        ([], "not_empty"),
        (None, "invalid_array"),
        ({}, "invalid_array"),
        ("x", "invalid_array"),
        ([{}] * 1001, "too_long"),
    ],
)
def test_invalid_arrays_are_refused(tenant: Tenant, api: Client, customers: int, contacts: Any, code: str) -> None:
    invalid(api.post(contacts_path(customers), {"contacts": contacts}), code, field="contacts", collection=None)
    assert count(tenant, customers) == 0


def test_1000_contacts_can_be_created_at_once(tenant: Tenant, api: Client, customers: int) -> None:
    tag = unique("bulk")
    contacts = [{"email": f"{tag}-{number}@example.com", "score": number} for number in range(1000)]
    assert api.post(contacts_path(customers), {"contacts": contacts}).status_code == 204
    assert count(tenant, customers) == 1000


def test_attributes_beside_the_array_are_unexpected(api: Client, path: str) -> None:
    invalid(api.post(path, {"email": new_email(), "contacts": [{}]}), "unexpected_field", field="email")


def test_elements_have_no_id_on_create(api: Client, path: str) -> None:
    invalid(api.post(path, {"contacts": [{"id": 5}]}), "unexpected_field", collection="contacts", index=0, field="id")


def test_one_invalid_element_creates_nothing(tenant: Tenant, api: Client, customers: int) -> None:
    invalid(
        api.post(contacts_path(customers), {"contacts": [{"email": new_email()}, {"email": "no"}]}),
        "invalid_email_address",
    )
    assert count(tenant, customers) == 0


# ---------------------------------------------------------------------------------------------- rules


def test_addresses_without_a_field_in_the_list_are_refused(api: Client, email_only: int, mobile_only: int) -> None:
    invalid(api.post(contacts_path(mobile_only), {"email": new_email()}), "field_email_not_in_list", field="email")
    invalid(api.post(contacts_path(email_only), {"mobile": new_mobile()}), "field_mobile_not_in_list", field="mobile")
    elements = [{"mobile": new_mobile()}, {"email": new_email()}]
    place = {"collection": "contacts", "index": 1, "field": "email"}
    invalid(api.post(contacts_path(mobile_only), {"contacts": elements}), "field_email_not_in_list", **place)


def test_null_is_accepted_for_an_address_without_a_field(tenant: Tenant, mobile_only: int) -> None:
    assert tenant.new_contact(mobile_only, email=None)["email"] is None


def test_the_first_rule_in_the_documented_order_is_reported(tenant: Tenant, api: Client) -> None:
    neither = tenant.add_list(fields=(("First Name", "First Name"),), system=True)
    elements = [{"mobile": new_mobile()}, {"email": new_email()}]
    body = invalid(api.post(contacts_path(neither), {"contacts": elements}), "field_email_not_in_list", index=1)
    codes = [error["code"] for error in body["_embedded"]["errors"]]
    assert codes == ["field_email_not_in_list", "field_mobile_not_in_list", "list_not_mutable"]


def test_contacts_of_a_system_list_cannot_be_created(tenant: Tenant, api: Client) -> None:
    path = contacts_path(tenant.add_list(system=True))
    invalid(api.post(path, {"email": new_email()}), "list_not_mutable")
    invalid(api.post(path, {"contacts": [{}]}), "list_not_mutable", collection=None)


def test_a_conflicting_email_names_the_existing_contact(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    existing = tenant.new_contact(customers, email=new_email())
    for email in (existing["email"], existing["email"].upper()):
        body = conflict(api.post(path, {"email": email}), field="email", code="conflict", collection=None)
        assert body["fields"] == {"email": {"contact_id": existing["id"]}}


def test_a_mobile_conflicts_where_it_is_the_identifier(tenant: Tenant, api: Client, mobile_only: int) -> None:
    existing = tenant.new_contact(mobile_only, mobile=new_mobile())
    body = conflict(api.post(contacts_path(mobile_only), {"mobile": existing["mobile"]}), field="mobile")
    assert body["fields"] == {"mobile": {"contact_id": existing["id"]}}


def test_all_conflicts_of_a_request_are_listed(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    first, second = (tenant.new_contact(customers, email=new_email()) for _ in range(2))
    fresh = new_email()
    emails = [fresh, first["email"], second["email"].upper(), fresh.upper()]
    body = conflict(api.post(path, {"contacts": [{"email": email} for email in emails]}), index=1, field="email")
    assert [(error["code"], error["collection"], error["index"]) for error in body["_embedded"]["errors"]] == [
        ("conflict", "contacts", 1),
        ("conflict", "contacts", 2),
        ("conflict", "contacts", 3),
    ]
    assert body["fields"] == {"email": {"contact_id": first["id"]}}
    assert find(tenant, customers, email=fresh) == []


def test_a_duplicate_within_a_request_is_reported_at_its_second_occurrence(api: Client, path: str) -> None:
    email = new_email()
    body = conflict(api.post(path, {"contacts": [{"email": email}, {"email": email.upper()}]}), index=1, field="email")
    assert body["fields"] == {"email": {}}


def test_schema_errors_are_reported_before_conflicts(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    existing = tenant.new_contact(customers, email=new_email())
    invalid(api.post(path, {"email": existing["email"], "first_name": 5}), "invalid_string", field="first_name")


# ---------------------------------------------------------------------------------------------- remove_unsubscribers


@pytest.fixture
def unsubscribed_addresses(tenant: Tenant, customers: int) -> dict[str, str]:
    """An address unsubscribed from Customers, one from another list, one account-wide."""
    emails = {"here": new_email(), "elsewhere": new_email(), "everywhere": new_email()}
    unsubscribe(tenant, emails["here"], customers)
    unsubscribe(tenant, emails["elsewhere"], tenant.add_list())
    unsubscribe(tenant, emails["everywhere"])
    return emails


@pytest.mark.parametrize(
    ("mode", "skipped"),
    [
        ("none", set()),
        ("list", {"here"}),
        ("any", {"here", "elsewhere", "everywhere"}),
    ],
)
def test_remove_unsubscribers_drops_unsubscribed_contacts(
    tenant: Tenant, customers: int, unsubscribed_addresses: dict[str, str], mode: str, skipped: set[str]
) -> None:
    """`list` considers the list's own entries only."""
    fresh = new_email()
    contacts = [{"email": fresh}, *({"email": email.upper()} for email in unsubscribed_addresses.values())]
    path = f"{contacts_path(customers)}?remove_unsubscribers={mode}"
    assert tenant.api.post(path, {"contacts": contacts}).status_code == 204
    created = {created["email"].lower() for created in find(tenant, customers)}
    assert created == {fresh, *(email for name, email in unsubscribed_addresses.items() if name not in skipped)}


@pytest.mark.parametrize("form", ["single", "multiple"])
def test_remove_unsubscribers_without_remaining_contacts_is_an_error(
    api: Client, path: str, unsubscribed_addresses: dict[str, str], form: str
) -> None:
    element = {"email": unsubscribed_addresses["here"]}
    body = element if form == "single" else {"contacts": [element, {"email": unsubscribed_addresses["everywhere"]}]}
    invalid(api.post(f"{path}?remove_unsubscribers=any", body), "no_subscribed_addresses")


def test_a_mobile_is_enough_to_be_skipped(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    mobile = new_mobile()
    unsubscribe(tenant, mobile, customers, "mobile")
    body = {"email": new_email(), "mobile": mobile, "subscribed": {"mobile": True}}
    invalid(api.post(f"{path}?remove_unsubscribers=list", body), "no_subscribed_addresses")
    assert entries(tenant) == {("mobile", mobile, customers)}


def test_no_contact_left_stands_before_a_system_list(tenant: Tenant, api: Client) -> None:
    list_id, email = tenant.add_list(system=True), new_email()
    unsubscribe(tenant, email)
    path = f"{contacts_path(list_id)}?remove_unsubscribers=any"
    invalid(api.post(path, {"email": email}), "no_subscribed_addresses")


def test_other_modes(api: Client, path: str) -> None:
    bad_query(api.post(f"{path}?remove_unsubscribers=all", {}), "invalid_query_syntax", field="remove_unsubscribers")
    bad_query(api.post(f"{path}?remove_unsubscribers=", {}), "invalid_query_syntax")


# ---------------------------------------------------------------------------------------------- order of checks


def test_another_accounts_list_is_not_found(other_tenant: Tenant, api: Client) -> None:
    path = contacts_path(other_tenant.add_list())
    not_found(api.post(path, {}))
    not_found(api.raw("POST", f"{path}?nonsense=1", b"{not json"))


def test_the_query_comes_before_the_body(api: Client, path: str) -> None:
    bad_query(api.raw("POST", f"{path}?nonsense=1", b"{not json"), "parameter_not_supported")
    bad_query(api.raw("POST", f"{path}?limit=1", b"{not json"), "parameter_not_available")
    bad_query(api.raw("POST", f"{path}?score=1", b"{not json"), "parameter_not_available")


def test_the_body_comes_before_the_rules(tenant: Tenant, api: Client) -> None:
    path = contacts_path(tenant.add_list(system=True))
    check_error(api.raw("POST", path, b"{not json"), 400, "invalid_request")
    check_error(api.raw("POST", path, b""), 400, "invalid_request")
    invalid(api.post(path, []), "invalid_object")
    invalid(api.post(path, {"is_active": 1}), "invalid_boolean")


def test_creating_needs_the_standard_level(tenant: Tenant, path: str) -> None:
    check_error(tenant.client("limited").post(path, {}), 403, "permission_denied")


# ---------------------------------------------------------------------------------------------- idempotency


def test_a_repeated_request_gets_the_first_answer(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    key, body = {"Idempotency-Key": unique("key")}, {"email": new_email()}
    first, second = (api.post(path, body, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code, first.data) == (201, 201, second.data)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert count(tenant, customers) == 1


def test_a_repeated_bulk_request_is_no_conflict(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    key, body = {"Idempotency-Key": unique("key")}, {"contacts": [{"email": new_email()}]}
    responses = [api.post(path, body, headers=key) for _ in range(2)]
    assert [(response.status_code, response.data) for response in responses] == [(204, b"")] * 2
    assert count(tenant, customers) == 1


def test_a_failed_request_leaves_the_key_free(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    key, existing = {"Idempotency-Key": unique("key")}, tenant.new_contact(customers, email=new_email())
    conflict(api.post(path, {"email": existing["email"]}, headers=key))
    assert api.post(path, {"email": new_email()}, headers=key).status_code == 201


def test_every_list_field_type_is_written_and_read(tenant: Tenant, api: Client) -> None:
    values = {
        "Phone Number": "0731234567",
        "Website Address / URL": "https://example.com/a?b=1",
        "Postcode or ZIP Code": "4000",
        "HTML Snippet": "<b>bold</b>",
        "File Upload": "report.pdf",
        "Date Picker": "2026-03-04",
        "Checkbox": "one,two",
        "Password Field": "pass word",
    }
    fields = tuple((name, name, ["one", "two"]) if name == "Checkbox" else (name, name) for name in values)
    list_id = tenant.add_list(fields=fields)
    keys = ["phone_number", "website_address_url", "postcode_or_zip_code", "html_snippet", "file_upload", "date_picker"]
    keys += ["checkbox", "password_field"]
    values_by_key = dict(zip(keys, values.values(), strict=True))
    assert items(api.get(contacts_path(list_id))) == []
    body = tenant.new_contact(list_id, **values_by_key)
    assert {key: body[key] for key in keys} == values_by_key
