"""Messages and their content (docs/endpoints.md#messages)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from app.db.bulk import draw_ids, insert_rows
from app.db.models import Message
from tests.support.cases import each
from tests.support.client import Client, bad_query, ids, items, not_found
from tests.support.filters import (
    WRONG,
    WRONG_CHOICES,
    WRONG_INTEGERS,
    WRONG_TIMES,
    Collection,
    choice_cases,
    integer_cases,
    moment,
    text_cases,
    time_cases,
)
from tests.support.tenants import Tenant, new_tenant

PATH = "/v1/messages"
FIELDS = (
    "id",
    "name",
    "type",
    "subject",
    "from_name",
    "from_address",
    "reply_to",
    "thumbnail_url",
    "creation_time",
    "last_modified_time",
)
TEXTS: dict[str, dict[str, str | None]] = {
    "name": {"a": "Welcome", "b": "welcome", "c": "Invoice, paid", "d": "Änderung", "e": "Welcome back"},
    "subject": {"a": "Hi, %%name%%", "b": "hi", "c": None, "d": "", "e": "Zoë 🐝"},
    "from_name": {"a": "Acme", "b": "acme", "c": None, "d": "Acme, Inc", "e": "Bolt"},
    "from_address": {"a": "a@x.example", "b": "A@x.example", "c": "61400000001", "d": None, "e": "b@x.example"},
    "reply_to": {"a": "r@x.example", "b": None, "c": None, "d": "s@x.example", "e": ""},
    "thumbnail_url": {"a": "https://x.example/1.png", "b": None, "c": None, "d": "", "e": "https://x.example/2.png"},
}
TYPES = {"a": "email", "b": "email", "c": "sms", "d": "email", "e": "sms"}
TIMES = {
    "creation_time": {
        "a": moment("2026-01-01T10:00:00"),
        "b": moment("2026-01-02T00:00:00"),
        "c": moment("2026-01-03T23:59:59"),
        "d": moment("2026-01-04T12:00:00"),
        "e": moment("2026-02-01T00:00:00"),
    },
    "last_modified_time": {
        "a": moment("2026-03-05T10:00:00"),
        "b": moment("2026-03-04T00:00:00"),
        "c": moment("2026-03-03T23:59:59"),
        "d": moment("2026-03-02T12:00:00"),
        "e": moment("2026-03-01T00:00:00"),
    },
}


@pytest.fixture(scope="module")
def library(app: Flask) -> tuple[Tenant, dict[str, int]]:
    """An account with five messages, and their ids by letter."""
    tenant = new_tenant(app)
    message_ids = {}
    for short_name in "abcde":
        texts = {name: values[short_name] for name, values in TEXTS.items()}
        times = {name: values[short_name] for name, values in TIMES.items()}
        message_ids[short_name] = tenant.add_message(type=TYPES[short_name], **texts, **times)
    return tenant, message_ids


@pytest.fixture(scope="module")
def matching_names(library: tuple[Tenant, dict[str, int]]) -> Callable[..., set[str]]:
    """The letters of the messages that match a query."""
    tenant, message_ids = library
    names = {message_id: short_name for short_name, message_id in message_ids.items()}
    collection = Collection(tenant.api, PATH, "messages", "id")
    return lambda *pairs: {names[row_id] for row_id in collection.matching_keys(pairs)}


# ---------------------------------------------------------------------------------------------- properties


def test_a_message_has_every_property_and_link(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, message_ids = library
    path = f"{PATH}/{message_ids['a']}"
    answer = tenant.api.get(path)
    assert answer.status_code == 200
    assert list(answer.get_json()) == [*FIELDS, "_links"]
    assert answer.get_json() == {
        "id": message_ids["a"],
        "name": "Welcome",
        "type": "email",
        "subject": "Hi, %%name%%",
        "from_name": "Acme",
        "from_address": "a@x.example",
        "reply_to": "r@x.example",
        "thumbnail_url": "https://x.example/1.png",
        "creation_time": "2026-01-01T10:00:00Z",
        "last_modified_time": "2026-03-05T10:00:00Z",
        "_links": {"self": {"href": path}, "content": {"href": f"{path}/content"}},
    }


def test_content_has_both_bodies_and_links(tenant: Tenant) -> None:
    message = tenant.add_message(body_html="<p>Zoë</p>", body_text=None)
    path = f"{PATH}/{message}"
    assert tenant.api.get(f"{path}/content").get_json() == {
        "message_id": message,
        "body_html": "<p>Zoë</p>",
        "body_text": None,
        "_links": {"self": {"href": f"{path}/content"}, "message": {"href": path}},
    }


def test_links_can_be_followed(tenant: Tenant) -> None:
    tenant.add_message()
    (message,) = items(tenant.api.get(PATH), "messages")
    assert tenant.api.get(message["_links"]["self"]["href"]).get_json() == message
    content = tenant.api.get(message["_links"]["content"]["href"]).get_json()
    assert tenant.api.get(content["_links"]["self"]["href"]).get_json() == content
    assert tenant.api.get(content["_links"]["message"]["href"]).get_json() == message


def test_the_collection_and_the_instance_are_equal(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, message_ids = library
    listed = {item["id"]: item for item in items(tenant.api.get(PATH), "messages")}
    assert listed == {
        message_id: tenant.api.get(f"{PATH}/{message_id}").get_json() for message_id in message_ids.values()
    }


def test_messages_are_sorted_by_time_then_id_newest_first(tenant: Tenant) -> None:
    early, late = moment("2026-01-01"), moment("2026-01-02")
    message_ids = [tenant.add_message(creation_time=time) for time in (late, early, late, early)]
    assert ids(tenant.api.get(PATH), "messages") == [message_ids[2], message_ids[0], message_ids[3], message_ids[1]]


# ---------------------------------------------------------------------------------------------- envelope and pages


def test_the_envelope(tenant: Tenant) -> None:
    tenant.add_message()
    body = tenant.api.get(PATH).get_json()
    assert list(body) == ["offset", "limit", "size", "_links", "_embedded"]
    assert (body["offset"], body["limit"], body["size"]) == (0, 100, 1)
    assert body["_links"] == {"self": {"href": PATH}}
    assert list(body["_embedded"]) == ["messages"]


def test_an_empty_collection(api: Client) -> None:
    body = api.get(PATH).get_json()
    assert (body["size"], body["_embedded"]["messages"], body["_links"]) == (0, [], {"self": {"href": PATH}})


def test_pages_link_to_each_other_and_keep_the_query(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, _ = library
    everything = ids(tenant.api.get(PATH), "messages")
    query = {"limit": 2, "fields": "id", "type:in": "email,sms", "_tz": "Australia/Brisbane"}
    message_ids, page = [], tenant.api.get(PATH, query)
    while True:
        message_ids += ids(page, "messages")
        links = page.get_json()["_links"]
        assert links["self"] == {"href": PATH}
        if "next" not in links:
            break
        page = tenant.api.get(links["next"]["href"])
    assert message_ids == everything
    back = [ids(page, "messages")]
    while "prev" in (links := page.get_json()["_links"]):
        page = tenant.api.get(links["prev"]["href"])
        back.insert(0, ids(page, "messages"))
    assert back == [everything[:2], everything[2:4], everything[4:]]


@each(
    ("limit", "offset", "size", "links"),
    [
        (5, 0, 5, {"self"}),
        (4, 0, 4, {"self", "next"}),
        (1000, 0, 5, {"self"}),
        (2, 2, 2, {"self", "next", "prev"}),
        (2, 3, 2, {"self", "prev"}),
        (2, 5, 0, {"self", "prev"}),
        (2, 10**30, 0, {"self", "prev"}),
        (0, 0, 5, {"self"}),
        (0, 3, 5, {"self"}),
    ],
)
def test_limit_and_offset(
    library: tuple[Tenant, dict[str, int]], limit: int, offset: int, size: int, links: set[str]
) -> None:
    tenant, _ = library
    body = tenant.api.get(PATH, {"limit": limit, "offset": offset}).get_json()
    assert (body["limit"], body["size"], set(body["_links"])) == (limit, size, links)
    assert len(body["_embedded"]["messages"]) == (size if limit else 0)


@each("value", ["1001", "-1", "abc", "1.5", "", " 1", "+1", "1e2", "9" * 5000, "0x1", "٣"])
def test_invalid_limits_are_refused(api: Client, value: str) -> None:
    bad_query(api.get(PATH, {"limit": value}), "invalid_limit", field="limit")


@each("value", ["-1", "abc", "1.5", "", " 1", "+1", "1e2"])
def test_invalid_offsets_are_refused(api: Client, value: str) -> None:
    bad_query(api.get(PATH, {"offset": value}), "invalid_offset", field="offset")


# ---------------------------------------------------------------------------------------------- filters

CASES = [
    *choice_cases("type", TYPES),
    *[case for name, values in TEXTS.items() for case in text_cases(name, values)],
    *[case for name, times in TIMES.items() for case in time_cases(name, dict(times))],
]


@each(("key", "value", "expected"), CASES)
def test_filters(matching_names: Callable[..., set[str]], key: str, value: str, expected: set[str]) -> None:
    assert matching_names((key, value)) == expected


def test_the_filter_id(matching_names: Callable[..., set[str]], library: tuple[Tenant, dict[str, int]]) -> None:
    for key, value, expected in integer_cases("id", dict(library[1])):
        assert matching_names((key, value)) == expected, (key, value)


def test_all_filters_apply_together(matching_names: Callable[..., set[str]]) -> None:
    assert matching_names(("type", "email"), ("from_name:in", "Acme,Bolt")) == {"a"}
    assert matching_names(("type", "email"), ("type", "sms")) == set()
    assert matching_names(("creation_time:in", "2026-01-02.."), ("creation_time:in", "..2026-02-01")) == {"c", "d"}


WRONG_CASES = [
    *[("type", *case) for case in (*WRONG, *WRONG_CHOICES)],
    *[("id", *case) for case in (*WRONG, *WRONG_INTEGERS)],
    *[("name", *case) for case in WRONG],
    *[(name, *case) for name in TIMES for case in (*WRONG, *WRONG_TIMES)],
]


@each(("name", "key", "value", "code"), WRONG_CASES)
def test_invalid_filters_are_refused(api: Client, name: str, key: str, value: str, code: str) -> None:
    bad_query(api.get(PATH, {key.format(name): value}), code, field=name)


@each(
    ("key", "value", "code"),
    [
        ("nonsense", "1", "parameter_not_supported"),
        ("nonsense:in", "1", "parameter_not_supported"),
        ("body_html", "x", "parameter_not_supported"),
        ("Name", "x", "parameter_not_supported"),
        ("", "x", "parameter_not_supported"),
        ("remove_unsubscribers", "none", "parameter_not_available"),
        ("q", "x", "text_search_not_supported"),
        ("order_by", "id", "invalid_order_by"),
        ("limit:in", "1", "invalid_operator"),
        ("fields:ne", "id", "invalid_operator"),
        ("fields", "id,nonsense", "invalid_query_syntax"),
        ("fields", "", "invalid_query_syntax"),
        ("fields", "id,", "invalid_query_syntax"),
        ("fields", "id, name", "invalid_query_syntax"),
        ("fields", "body_html", "invalid_query_syntax"),
        ("expand", "message", "invalid_query_syntax"),
        ("expand", "", "invalid_query_syntax"),
        ("_tz", "Mars/Base", "invalid_time_zone"),
        ("_tz", "", "invalid_time_zone"),
        ("_tz", "+10:00", "invalid_time_zone"),
        ("_tz", "../etc/passwd", "invalid_time_zone"),
        ("_tz", "australia/brisbane", "invalid_time_zone"),
    ],
)
def test_invalid_parameters_are_refused(api: Client, key: str, value: str, code: str) -> None:
    bad_query(api.get(PATH, {key: value}), code)


@each(
    ("name", "value", "code"),
    [
        ("limit", "1", "invalid_limit"),
        ("offset", "1", "invalid_offset"),
        ("fields", "id", "invalid_query_syntax"),
        ("expand", "content", "invalid_query_syntax"),
        ("_tz", "UTC", "invalid_query_syntax"),
    ],
)
def test_parameters_that_may_not_repeat_are_refused_when_repeated(
    api: Client, name: str, value: str, code: str
) -> None:
    bad_query(api.get(PATH, [(name, value), (name, value)]), code, field=name)


@each("name", ["id", "type", "limit", "offset", "remove_unsubscribers"])
def test_an_instance_has_no_filters_and_no_pages(tenant: Tenant, name: str) -> None:
    path = f"{PATH}/{tenant.add_message()}"
    bad_query(tenant.api.get(path, {name: "1"}), "parameter_not_available", field=name)


def test_content_has_no_filters(tenant: Tenant) -> None:
    path = f"{PATH}/{tenant.add_message()}/content"
    bad_query(tenant.api.get(path, {"message_id": "1"}), "parameter_not_supported")
    bad_query(tenant.api.get(path, {"limit": "1"}), "parameter_not_available")


# ---------------------------------------------------------------------------------------------- fields, expand, _tz


@each("name", FIELDS)
def test_each_field_can_be_requested_alone(library: tuple[Tenant, dict[str, int]], name: str) -> None:
    tenant, message_ids = library
    whole = tenant.api.get(f"{PATH}/{message_ids['a']}").get_json()
    expected = {name: whole[name], "_links": whole["_links"]}
    assert tenant.api.get(f"{PATH}/{message_ids['a']}", {"fields": name}).get_json() == expected
    assert items(tenant.api.get(PATH, {"fields": name, "id": message_ids["a"]}), "messages") == [expected]


@each("name", ["message_id", "body_html", "body_text"])
def test_each_field_of_the_content_can_be_requested_alone(tenant: Tenant, name: str) -> None:
    path = f"{PATH}/{tenant.add_message()}/content"
    assert list(tenant.api.get(path, {"fields": name}).get_json()) == [name, "_links"]


def test_fields_have_the_order_of_the_resource(tenant: Tenant) -> None:
    path = f"{PATH}/{tenant.add_message()}"
    assert list(tenant.api.get(path, {"fields": "type,id,type"}).get_json()) == ["id", "type", "_links"]


def test_expand_embeds_the_content_of_each_message(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, message_ids = library
    for item in items(tenant.api.get(PATH, {"expand": "content"}), "messages"):
        assert item["_embedded"] == {"content": tenant.api.get(f"{PATH}/{item['id']}/content").get_json()}
    message = tenant.api.get(f"{PATH}/{message_ids['a']}", {"expand": "content"}).get_json()
    assert message["_embedded"]["content"]["message_id"] == message_ids["a"]


def test_expand_embeds_the_message_of_a_content(tenant: Tenant) -> None:
    path = f"{PATH}/{tenant.add_message()}"
    content = tenant.api.get(f"{path}/content", {"expand": "message"}).get_json()
    assert content["_embedded"] == {"message": tenant.api.get(path).get_json()}


def test_fields_do_not_affect_embedded_resources(tenant: Tenant) -> None:
    path = f"{PATH}/{tenant.add_message()}"
    body = tenant.api.get(path, {"expand": "content", "fields": "name"}).get_json()
    assert list(body) == ["name", "_links", "_embedded"]
    assert set(body["_embedded"]["content"]) == {"message_id", "body_html", "body_text", "_links"}


def test_nothing_is_embedded_without_expand(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, message_ids = library
    assert "_embedded" not in tenant.api.get(f"{PATH}/{message_ids['a']}").get_json()
    assert "_embedded" not in items(tenant.api.get(PATH), "messages")[0]


def test_a_count_embeds_nothing(library: tuple[Tenant, dict[str, int]]) -> None:
    body = library[0].api.get(PATH, {"limit": 0, "expand": "content", "fields": "id"}).get_json()
    assert (body["size"], body["_embedded"]["messages"]) == (5, [])


def test_the_time_zone_applies_to_every_timestamp_of_the_answer(library: tuple[Tenant, dict[str, int]]) -> None:
    tenant, message_ids = library
    zone = {"_tz": "Australia/Brisbane"}
    path = f"{PATH}/{message_ids['a']}"
    shifted = ("2026-01-01T20:00:00+1000", "2026-03-05T20:00:00+1000")
    for message in (
        tenant.api.get(path, zone).get_json(),
        items(tenant.api.get(PATH, {**zone, "id": message_ids["a"]}), "messages")[0],
        tenant.api.get(f"{path}/content", {**zone, "expand": "message"}).get_json()["_embedded"]["message"],
    ):
        assert (message["creation_time"], message["last_modified_time"]) == shifted


def test_the_time_zone_applies_to_filter_values_without_one(matching_names: Callable[..., set[str]]) -> None:
    brisbane = ("_tz", "Australia/Brisbane")
    assert matching_names(("creation_time", "2026-01-01T20:00:00"), brisbane) == {"a"}
    assert matching_names(brisbane, ("creation_time", "2026-01-01T10:00:00Z")) == {"a"}
    # 3 January 23:59:59 in UTC is 4 January there.
    assert matching_names(("creation_time", "2026-01-04"), brisbane) == {"c", "d"}
    assert matching_names(("creation_time", "2026-01-04")) == {"d"}


# ---------------------------------------------------------------------------------------------- accounts


def test_another_account_sees_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    message = tenant.add_message(name="Private")
    assert items(other_tenant.api.get(PATH), "messages") == []
    assert items(other_tenant.api.get(PATH, {"id": message}), "messages") == []
    assert other_tenant.api.get(PATH, {"limit": 0, "name": "Private"}).get_json()["size"] == 0
    for tail in ("", "/content", "/sent-contacts"):
        not_found(other_tenant.api.get(f"{PATH}/{message}{tail}"))


# ---------------------------------------------------------------------------------------------- statements


def add_messages(tenant: Tenant, count: int) -> None:
    """Adds many messages at once."""
    time = moment("2026-01-01")
    columns = dict.fromkeys(("subject", "from_name", "from_address", "reply_to", "thumbnail_url", "body_text"))
    with tenant.services.database.write() as transaction:
        rows = [
            {
                "id": new_id,
                "account_id": tenant.id,
                "name": f"message {new_id}",
                "type": "email",
                "body_html": "<p>Hi</p>",
                "creation_time": time,
                "last_modified_time": time,
                **columns,
            }
            for new_id in draw_ids(transaction, Message, count)
        ]
        insert_rows(transaction, Message, rows)


@pytest.mark.parametrize("query", [{}, {"expand": "content"}, {"type": "email"}, {"limit": 0}])
def test_a_page_of_1000_takes_as_many_statements_as_one_of_1(
    tenant: Tenant, other_tenant: Tenant, count_statements: Callable[[], Any], query: dict[str, Any]
) -> None:
    counts = []
    for account, number in ((tenant, 1), (other_tenant, 1000)):
        add_messages(account, number)
        with count_statements() as counted:
            body = account.api.get(PATH, {"limit": 1000, **query}).get_json()
        assert body["size"] == number
        counts.append(counted.count)
    assert counts[0] == counts[1]
