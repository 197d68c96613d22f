"""Reading contacts: instances, pages, filters of every property (docs/contacts.md#attributes)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from app.clock import timestamp
from app.db.models import Contact
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, ids, items, not_found
from tests.support.contacts import block, contact, contacts_path, find, unblock, unsubscribe
from tests.support.tenants import Tenant, new_email, new_mobile


@pytest.fixture
def path(customers: int) -> str:
    return contacts_path(customers)


@pytest.fixture
def ann(tenant: Tenant, customers: int) -> dict[str, Any]:
    """A contact with a value for every attribute."""
    return tenant.new_contact(
        customers,
        email="Ann.Lee@example.com",
        mobile="61411111111",
        first_name="Ann",
        last_name="Lee, Jr",
        plan="gold",
        interests="tea,cake",
        spend=12.5,
        score=3,
        born="1990-02-28",
        visit="2026-01-31T08:30:00",
        reply_to="",
        double_opt_in=True,
    )


@pytest.fixture
def bob(tenant: Tenant, customers: int) -> dict[str, Any]:
    """A contact with few values."""
    return tenant.new_contact(
        customers, email="bob@example.com", plan="free", score=40, visit="2026-02-01", is_active=False
    )


def names(api: Client, path: str, *params: tuple[str, str]) -> list[str]:
    """The names of the contacts that match the filters, ann before bob."""
    return sorted(
        item["email"].partition("@")[0].partition(".")[0].lower() for item in items(api.get(path, list(params)))
    )


# ---------------------------------------------------------------------------------------------- instances


def test_an_instance_equals_the_item_of_the_page(
    tenant: Tenant, api: Client, path: str, customers: int, ann: Any
) -> None:
    assert contact(tenant, customers, ann["id"]) == ann
    assert items(api.get(path)) == [ann]


def test_an_instance_accepts_fields(api: Client, path: str, ann: Any) -> None:
    body = api.get(f"{path}/{ann['id']}", {"fields": "subscribed,first_name"}).get_json()
    assert body == {"subscribed": {"email": True, "mobile": True}, "first_name": "Ann", "_links": ann["_links"]}


@each("name", ["id", "blocked", "double_opt_in_time", "last_modified_time", "interests", "spend"])
def test_every_property_can_be_the_only_field(api: Client, path: str, ann: Any, name: str) -> None:
    for body in (
        api.get(f"{path}/{ann['id']}", {"fields": name}).get_json(),
        items(api.get(path, {"fields": name}))[0],
    ):
        assert body == {name: ann[name], "_links": ann["_links"]}


@each(
    "query",
    ["subscribed.email", "blocked.mobile,id", "subscribed.mobile,subscribed.email", "subscribed,subscribed.email"],
)
def test_a_member_of_subscribed_and_blocked_can_be_requested_alone(
    api: Client, path: str, ann: Any, query: str
) -> None:
    expected: dict[str, Any] = {}
    for field in query.split(","):
        name, _, member = field.partition(".")
        if member and "subscribed" not in query.split(","):
            expected.setdefault(name, {})[member] = ann[name][member]
        else:
            expected[name] = ann[name]
    for body in (
        api.get(f"{path}/{ann['id']}", {"fields": query}).get_json(),
        items(api.get(path, {"fields": query}))[0],
    ):
        assert body == {**expected, "_links": ann["_links"]}


def test_links_are_always_there_and_may_be_requested(api: Client, path: str, ann: Any) -> None:
    assert api.get(f"{path}/{ann['id']}", {"fields": "_links"}).get_json() == {"_links": ann["_links"]}
    body = api.get(f"{path}/{ann['id']}", {"fields": "id,_links"}).get_json()
    assert body == {"id": ann["id"], "_links": ann["_links"]}


def test_a_contact_of_another_list_or_account_is_not_found(
    tenant: Tenant, other_tenant: Tenant, api: Client, path: str
) -> None:
    theirs = other_tenant.new_contact(other_tenant.add_list())
    elsewhere = tenant.new_contact(tenant.add_list())
    for contact_id in (theirs["id"], elsewhere["id"]):
        not_found(api.get(f"{path}/{contact_id}"))
        not_found(api.get(f"{path}/{contact_id}", {"nonsense": 1}))
    not_found(api.get(contacts_path(theirs["list_id"])))
    not_found(api.get(f"{contacts_path(theirs['list_id'])}/{theirs['id']}"))
    not_found(api.get(f"{contacts_path(theirs['list_id'])}/{elsewhere['id']}"))


@each("segment", ["0", "-1", "abc", "1.5", "99999999999999999999"])
def test_a_malformed_id_is_not_found(api: Client, path: str, segment: str) -> None:
    not_found(api.get(f"{path}/{segment}"))


def test_query_parameters_of_an_instance(api: Client, path: str, ann: Any) -> None:
    path = f"{path}/{ann['id']}"
    bad_query(api.get(path, {"limit": 1}), "parameter_not_available")
    bad_query(api.get(path, {"score": 1}), "parameter_not_available")
    bad_query(api.get(path, {"remove_unsubscribers": "none"}), "parameter_not_available")
    bad_query(api.get(path, {"nonsense": 1}), "parameter_not_supported")
    bad_query(api.get(path, {"fields": "nonsense"}), "invalid_query_syntax", field="fields")
    bad_query(api.get(path, {"expand": "list"}), "invalid_query_syntax", field="expand")


def test_reading_requires_the_standard_level(tenant: Tenant, path: str, ann: Any) -> None:
    for level in ("limited", "report"):
        check_error(tenant.client(level).get(path), 403, "permission_denied")
        check_error(tenant.client(level).get(f"{path}/{ann['id']}"), 403, "permission_denied")


# ---------------------------------------------------------------------------------------------- pages


def test_pages_follow_each_other_without_gaps(tenant: Tenant, api: Client, path: str) -> None:
    api.post(path, {"contacts": [{"score": number} for number in range(25)]})
    whole = ids(api.get(path))
    assert whole == sorted(whole, reverse=True)
    read_ids: list[int] = []
    href: str | None = f"{path}?limit=4&fields=id"
    while href:
        body = api.get(href).get_json()
        read_ids += [item["id"] for item in body["_embedded"]["contacts"]]
        href = body["_links"].get("next", {}).get("href")
    assert read_ids == whole


def test_only_contacts_of_the_list_are_on_its_page(tenant: Tenant, api: Client, path: str, ann: Any) -> None:
    tenant.new_contact(tenant.add_list(), email=ann["email"])
    assert ids(api.get(path)) == [ann["id"]]
    assert api.get(path, {"limit": 0}).get_json()["size"] == 1


def test_times_are_shown_in_the_time_zone_of_the_query(api: Client, path: str, ann: Any) -> None:
    (item,) = items(api.get(path, {"_tz": "Australia/Brisbane"}))
    for name in ("creation_time", "last_modified_time", "double_opt_in_time"):
        assert item[name].endswith("+1000")
        assert datetime.fromisoformat(item[name]) == datetime.fromisoformat(ann[name])
    assert (item["born"], item["visit"]) == (ann["born"], ann["visit"])


# ---------------------------------------------------------------------------------------------- filters

FILTERS: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "email": ([("email", "ann.lee@EXAMPLE.com")], ["ann"]),
    "email in": ([("email:in", "ANN.LEE@example.com,nobody@example.com")], ["ann"]),
    "email ne": ([("email:ne", "ann.lee@example.com")], ["bob"]),
    "mobile": ([("mobile", "61411111111")], ["ann"]),
    "mobile null": ([("mobile", "")], ["bob"]),
    "is_active": ([("is_active", "false")], ["bob"]),
    "is_active ne": ([("is_active:ne", "false")], ["ann"]),
    "double_opt_in": ([("double_opt_in", "true")], ["ann"]),
    "double_opt_in_time null": ([("double_opt_in_time", "")], ["bob"]),
    "double_opt_in_time": ([("double_opt_in_time:in", "2020-01-01..")], ["ann"]),
    "string": ([("first_name", "Ann")], ["ann"]),
    "string case": ([("first_name", "ann")], []),
    "string null or empty": ([("reply_to", "")], ["ann", "bob"]),
    "string ne includes null": ([("first_name:ne", "Bea")], ["ann", "bob"]),
    "string ne": ([("first_name:ne", "Ann")], ["bob"]),
    "string with comma": ([("last_name", "Lee, Jr")], ["ann"]),
    "string in with comma": ([("last_name:in", "Lee\\, Jr,x")], ["ann"]),
    "option": ([("plan:in", "gold,free")], ["ann", "bob"]),
    "option unknown": ([("plan", "silver")], []),
    "checkbox is compared whole": ([("interests", "tea,cake")], ["ann"]),
    "number": ([("score", "3")], ["ann"]),
    "number as float": ([("score", "3.0")], ["ann"]),
    "number ne": ([("score:ne", "3")], ["bob"]),
    "number range": ([("score:in", "3..39")], ["ann"]),
    "number after": ([("score:in", "3..")], ["bob"]),
    "number before": ([("score:in", "..40")], ["ann"]),
    "number is no text": ([("score:in", "..5")], ["ann"]),
    "currency": ([("spend", "12.50")], ["ann"]),
    "currency null": ([("spend", "")], ["bob"]),
    "date": ([("born", "1990-02-28")], ["ann"]),
    "date range": ([("born:in", "1990-02-01..1990-02-28")], ["ann"]),
    "date after": ([("born:in", "1990-02-28..")], []),
    "datetime": ([("visit", "2026-01-31T08:30:00")], ["ann"]),
    "datetime by day": ([("visit", "2026-01-31")], ["ann"]),
    "date of a date picker": ([("visit", "2026-02-01")], ["bob"]),
    "datetime range": ([("visit:in", "2026-01-31..2026-02-01")], ["ann", "bob"]),
    "and": ([("plan", "gold"), ("score:in", "1..5")], ["ann"]),
    "sql": ([("first_name", "' OR 1=1 --")], []),
    "json": ([("first_name", '"Ann"')], []),
    "null byte": ([("first_name", "a\x00")], []),
}


@pytest.mark.usefixtures("ann", "bob")
@each("case", list(FILTERS))
def test_filters_of_every_property(api: Client, path: str, case: str) -> None:
    params, expected = FILTERS[case]
    assert names(api, path, *params) == expected


@pytest.mark.usefixtures("ann", "bob")
def test_filters_find_the_same_contacts_for_frequent_values(
    api: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rare values are looked up in an index; others are filtered in the order of the page (app/db/index_hints.py)."""
    monkeypatch.setattr("app.db.index_hints.MAX_ROWS_TO_SORT", 0)
    monkeypatch.setattr("app.contacts.filters.MAX_ROWS_TO_SORT", 0)
    for case, (params, expected) in FILTERS.items():
        assert names(api, path, *params) == expected, case


@pytest.mark.parametrize("few", [0, 1000])
def test_filter_by_modification(
    tenant: Tenant, api: Client, path: str, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Contacts that were changed since their creation, and those that were not, which no index of their own has."""
    monkeypatch.setattr("app.db.index_hints.MAX_ROWS_TO_SORT", few)
    moment = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    changes = {"kept": (1, 1), "early": (1, 2), "late": (1, 9), "new": (8, 8), "backwards": (9, 3)}
    contact_ids = {name: tenant.new_contact(int(path.split("/")[3]))["id"] for name in changes}
    with tenant.services.database.write() as transaction:
        for name, (created, modified) in changes.items():
            times = {"creation_time": moment.replace(day=created), "last_modified_time": moment.replace(day=modified)}
            transaction.execute(update(Contact).where(Contact.id == contact_ids[name]).values(**times))

    def matching(key: str, value: str) -> set[str]:
        return {name for name, contact_id in contact_ids.items() if contact_id in ids(api.get(path, {key: value}))}

    assert matching("last_modified_time:in", "2026-01-07..") == {"late", "new"}
    assert matching("last_modified_time:in", "..2026-01-03") == {"kept", "early"}
    assert matching("last_modified_time:in", "2026-01-02,2026-01-09..2026-01-10") == {"early", "late"}
    assert matching("last_modified_time", "2026-01-03") == {"backwards"}
    assert matching("last_modified_time:ne", "2026-01-03") == {"kept", "early", "late", "new"}
    assert matching("last_modified_time:in", "2026-02-01..") == set()


def test_filters_by_id_and_times(tenant: Tenant, api: Client, path: str, ann: Any, bob: Any) -> None:
    early = datetime.fromisoformat(ann["creation_time"]) - timedelta(days=3)
    with tenant.services.database.write() as transaction:
        transaction.execute(
            update(Contact).where(Contact.id == ann["id"]).values(creation_time=early, last_modified_time=early)
        )
    text = timestamp(early)
    for params in (
        {"id": ann["id"]},
        {"creation_time": text},
        {"last_modified_time": text},
        {"creation_time": text[:10]},
    ):
        assert ids(api.get(path, params)) == [ann["id"]]
    assert ids(api.get(path, {"creation_time:in": f"{text}.."})) == [bob["id"]]
    assert ids(api.get(path, {"id:ne": ann["id"]})) == [bob["id"]]
    assert ids(api.get(path)) == [bob["id"], ann["id"]]


@each(
    ("key", "value", "code"),
    [
        ("score", "abc", "invalid_query_syntax"),
        ("born", "1990-02-31", "invalid_query_syntax"),
        ("is_active", "maybe", "invalid_query_syntax"),
        ("subscribed.email", "yes", "invalid_query_syntax"),
        ("blocked", "1", "invalid_query_syntax"),
        ("score:in", "1,abc", "invalid_filter_list"),
        ("first_name:like", "A", "invalid_operator"),
        ("subscribed.fax", "true", "parameter_not_supported"),
        ("list_id", "1", "parameter_not_supported"),
        ("remove_unsubscribers", "none", "parameter_not_available"),
        ("expand", "list", "invalid_query_syntax"),
    ],
)
def test_invalid_filters_are_refused(api: Client, path: str, key: str, value: str, code: str) -> None:
    bad_query(api.get(path, {key: value}), code)


def test_a_field_of_another_list_is_no_filter(tenant: Tenant, api: Client) -> None:
    bad_query(api.get(contacts_path(tenant.add_list()), {"score": "1"}), "parameter_not_supported")


def test_a_large_number_is_found_by_its_exact_value(tenant: Tenant, api: Client, path: str, customers: int) -> None:
    exact = tenant.new_contact(customers, score=2**53 + 1)
    assert ids(api.get(path, {"score": str(2**53 + 1)})) == [exact["id"]]


# ---------------------------------------------------------------------------------------------- subscribed and blocked


@pytest.fixture
def flagged(tenant: Tenant, customers: int) -> dict[str, int]:
    """Contacts by the state of their addresses."""
    ids_by_name: dict[str, int] = {}
    for name in ("fine", "email", "mobile", "both"):
        email, mobile = new_email(), new_mobile()
        ids_by_name[name] = tenant.new_contact(customers, email=email, mobile=mobile)["id"]
        if name in ("email", "both"):
            unsubscribe(tenant, email, customers)
            block(tenant, email)
        if name in ("mobile", "both"):
            unsubscribe(tenant, mobile, None, "mobile")
            block(tenant, mobile, "mobile")
    return ids_by_name


TROUBLED = {".email": {"email", "both"}, ".mobile": {"mobile", "both"}, "": {"email", "mobile", "both"}}


@each("noun", ["subscribed", "blocked"])
@each("member", list(TROUBLED))
def test_flags_are_filters(api: Client, path: str, flagged: dict[str, int], noun: str, member: str) -> None:
    with_trouble = {flagged[name] for name in TROUBLED[member]}
    without = set(flagged.values()) - with_trouble
    bad, good = ("true", "false") if noun == "blocked" else ("false", "true")
    assert set(ids(api.get(path, {f"{noun}{member}": bad}))) == with_trouble
    assert set(ids(api.get(path, {f"{noun}{member}": good}))) == without
    assert set(ids(api.get(path, {f"{noun}{member}:ne": bad}))) == without
    assert set(ids(api.get(path, {f"{noun}{member}:in": "true,false"}))) == set(flagged.values())
    assert api.get(path, {f"{noun}{member}": bad, "limit": 0}).get_json()["size"] == len(with_trouble)
    assert ids(api.get(path, {f"{noun}{member}": ""})) == []


def test_flags_are_shown(tenant: Tenant, customers: int, flagged: dict[str, int]) -> None:
    body = contact(tenant, customers, flagged["mobile"])
    assert body["subscribed"] == {"email": True, "mobile": False}
    assert body["blocked"] == {"email": False, "mobile": True}


def test_blocking_is_per_account_and_ignores_case(tenant: Tenant, other_tenant: Tenant, customers: int) -> None:
    """Blocking a contact changes its time of modification as well, perhaps to a later second."""

    def described(shown_contact: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in shown_contact.items() if name != "last_modified_time"}

    email = new_email()
    before = tenant.new_contact(customers, email=email)
    block(other_tenant, email)
    assert contact(tenant, customers, before["id"]) == before
    block(tenant, email.upper())
    [blocked] = find(tenant, customers, blocked="true")
    assert described(blocked) == {**described(before), "blocked": {"email": True, "mobile": False}}
    assert unblock(tenant, email)
    assert not unblock(tenant, email)
    assert described(contact(tenant, customers, before["id"])) == described(before)


def test_a_new_contact_with_a_blocked_address_is_blocked(tenant: Tenant, customers: int) -> None:
    email = new_email()
    block(tenant, email)
    assert tenant.new_contact(customers, email=email)["blocked"] == {"email": True, "mobile": False}
