"""Transactional groups (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from app.db.bulk import draw_ids, insert_rows
from app.db.models import Group, GroupCount
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
from tests.support.tenants import Tenant, new_tenant, unique

PATH = "/v1/transactional-groups"
NAME = "transactional-groups"
COUNTERS = ("sent", "failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
FIELDS = ("id", "type", "name", "creation_time", "last_sent_time", *COUNTERS)

NAMES: dict[str, str | None] = {"a": "Invoices", "b": "invoices", "c": "Codes, sms", "d": "Ürlaub"}
TYPES = {"a": "email", "b": "email", "c": "sms", "d": "email"}
TIMES = {
    "creation_time": {
        short_name: moment(f"2026-01-0{day}") for short_name, day in zip("abcd", (1, 2, 3, 4), strict=True)
    },
    "last_sent_time": {
        short_name: moment(f"2026-02-0{day}") for short_name, day in zip("abcd", (4, 3, 2, 1), strict=True)
    },
}
COUNTS: dict[str, dict[str, int | None]] = {
    name: {"a": 0, "b": place + 1, "c": place + 10, "d": 2**31 - 1 - place} for place, name in enumerate(COUNTERS)
}


def add_group(tenant: Tenant, **values: Any) -> int:
    """A group whose counters, zero by default, are spread over its own row and two slots, one of them negative."""
    counts = {name: values.pop(name, 0) for name in COUNTERS}
    last_sent_time = values.pop("last_sent_time", moment("2026-01-01"))
    defaults = {
        "type": "email",
        "name": unique("group"),
        "creation_time": moment("2026-01-01"),
        "own_last_sent_time": moment("2025-12-31"),
        **{f"own_{name}": count // 2 for name, count in counts.items()},
    }
    group_id = tenant.add(Group, **{**defaults, **values})
    slots = [
        {
            "slot": 3,
            "last_sent_time": last_sent_time,
            **{name: count - count // 2 + 7 for name, count in counts.items()},
        },
        {"slot": 4, "last_sent_time": None, **dict.fromkeys(COUNTERS, -7)},
    ]
    with tenant.services.database.write() as transaction:
        insert_rows(transaction, GroupCount, slots, {"account_id": tenant.id, "group_id": group_id})
    return group_id


@pytest.fixture(scope="module")
def reports(app: Flask) -> tuple[Tenant, dict[str, int]]:
    """An account with four groups, and their ids by letter."""
    tenant = new_tenant(app)
    group_ids = {}
    for short_name in "abcd":
        counts = {name: values[short_name] for name, values in COUNTS.items()}
        times = {name: values[short_name] for name, values in TIMES.items()}
        group_ids[short_name] = add_group(tenant, name=NAMES[short_name], type=TYPES[short_name], **counts, **times)
    return tenant, group_ids


@pytest.fixture(scope="module")
def matching_names(reports: tuple[Tenant, dict[str, int]]) -> Callable[..., set[str]]:
    """The letters of the groups that match a query."""
    tenant, group_ids = reports
    names = {group_id: short_name for short_name, group_id in group_ids.items()}
    collection = Collection(tenant.api, PATH, NAME, "id")
    return lambda *pairs: {names[row_id] for row_id in collection.matching_keys(pairs)}


def test_a_group_has_every_property_and_link(reports: tuple[Tenant, dict[str, int]]) -> None:
    tenant, group_ids = reports
    body = tenant.api.get(f"{PATH}/{group_ids['c']}").get_json()
    assert list(body) == [*FIELDS, "_links"]
    assert body == {
        "id": group_ids["c"],
        "type": "sms",
        "name": "Codes, sms",
        "creation_time": "2026-01-03T00:00:00Z",
        "last_sent_time": "2026-02-02T00:00:00Z",
        **{name: values["c"] for name, values in COUNTS.items()},
        "_links": {"self": {"href": f"{PATH}/{group_ids['c']}"}},
    }


def test_the_collection_and_the_instance_are_equal(reports: tuple[Tenant, dict[str, int]]) -> None:
    tenant, group_ids = reports
    body = tenant.api.get(PATH).get_json()
    assert (body["offset"], body["limit"], body["size"]) == (0, 100, 4)
    assert list(body["_embedded"]) == [NAME]
    assert {item["id"]: item for item in body["_embedded"][NAME]} == {
        group_id: tenant.api.get(f"{PATH}/{group_id}").get_json() for group_id in group_ids.values()
    }


def test_groups_are_sorted_by_time_then_id_newest_first(tenant: Tenant) -> None:
    early, late = moment("2026-01-01"), moment("2026-01-02")
    group_ids = [add_group(tenant, creation_time=time) for time in (late, early, late, early)]
    assert ids(tenant.api.get(PATH), NAME) == [group_ids[2], group_ids[0], group_ids[3], group_ids[1]]
    assert ids(tenant.api.get(PATH, {"limit": 1, "offset": 1}), NAME) == [group_ids[0]]


def test_the_report_level_is_sufficient(reports: tuple[Tenant, dict[str, int]]) -> None:
    tenant, group_ids = reports
    client = tenant.client("report")
    assert client.get(PATH).status_code == 200
    assert client.get(f"{PATH}/{group_ids['a']}").status_code == 200


@each(
    ("key", "value", "expected"),
    [
        *choice_cases("type", TYPES),
        *text_cases("name", NAMES),
        *[case for name, times in TIMES.items() for case in time_cases(name, dict(times))],
        *[case for name, counts in COUNTS.items() for case in integer_cases(name, counts)],
    ],
)
def test_filters(matching_names: Callable[..., set[str]], key: str, value: str, expected: set[str]) -> None:
    assert matching_names((key, value)) == expected


def test_the_filter_id(matching_names: Callable[..., set[str]], reports: tuple[Tenant, dict[str, int]]) -> None:
    for key, value, expected in integer_cases("id", dict(reports[1])):
        assert matching_names((key, value)) == expected, (key, value)


def test_the_type_filter_is_optional(matching_names: Callable[..., set[str]]) -> None:
    assert matching_names() == set("abcd")


@each(
    ("name", "key", "value", "code"),
    [
        *[("type", *case) for case in (*WRONG, *WRONG_CHOICES)],
        *[(name, *case) for name in ("id", *COUNTERS) for case in (*WRONG, *WRONG_INTEGERS)],
        *[(name, *case) for name in TIMES for case in (*WRONG, *WRONG_TIMES)],
    ],
)
def test_invalid_filters_are_refused(api: Client, name: str, key: str, value: str, code: str) -> None:
    bad_query(api.get(PATH, {key.format(name): value}), code, field=name)


@each(
    ("key", "value", "code"),
    [
        ("list_id", "1", "parameter_not_supported"),
        ("expand", "messages", "invalid_query_syntax"),
        ("fields", "nonsense", "invalid_query_syntax"),
        ("q", "x", "text_search_not_supported"),
        ("order_by", "name", "invalid_order_by"),
    ],
)
def test_invalid_parameters_are_refused(api: Client, key: str, value: str, code: str) -> None:
    bad_query(api.get(PATH, {key: value}), code, field=key)


@each("name", FIELDS)
def test_each_field_can_be_requested_alone(reports: tuple[Tenant, dict[str, int]], name: str) -> None:
    tenant, group_ids = reports
    whole = tenant.api.get(f"{PATH}/{group_ids['a']}").get_json()
    expected = {name: whole[name], "_links": whole["_links"]}
    assert tenant.api.get(f"{PATH}/{group_ids['a']}", {"fields": name}).get_json() == expected
    assert items(tenant.api.get(PATH, {"fields": name, "id": group_ids["a"]}), NAME) == [expected]


def test_the_time_zone_applies_to_both_times(reports: tuple[Tenant, dict[str, int]]) -> None:
    tenant, group_ids = reports
    group = tenant.api.get(f"{PATH}/{group_ids['a']}", {"_tz": "Asia/Kolkata"}).get_json()
    assert (group["creation_time"], group["last_sent_time"]) == ("2026-01-01T05:30:00+0530", "2026-02-04T05:30:00+0530")


def test_another_account_sees_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    group = add_group(tenant, name="Private")
    assert items(other_tenant.api.get(PATH), NAME) == []
    assert other_tenant.api.get(PATH, {"limit": 0, "name": "Private"}).get_json()["size"] == 0
    not_found(other_tenant.api.get(f"{PATH}/{group}"))


def test_two_accounts_may_have_groups_of_the_same_name(tenant: Tenant, other_tenant: Tenant) -> None:
    add_group(tenant, name="Same")
    add_group(other_tenant, name="Same")
    for account in (tenant, other_tenant):
        assert len(ids(account.api.get(PATH, {"name": "Same"}), NAME)) == 1


@pytest.mark.parametrize("query", [{}, {"type": "email"}, {"limit": 0}])
def test_a_page_of_1000_takes_as_many_statements_as_one_of_1(
    tenant: Tenant, other_tenant: Tenant, count_statements: Callable[[], Any], query: dict[str, Any]
) -> None:
    counts = []
    time = moment("2026-01-01")
    for account, number in ((tenant, 1), (other_tenant, 1000)):
        with account.services.database.write() as transaction:
            rows = [
                {
                    "id": new_id,
                    "account_id": account.id,
                    "type": "email",
                    "name": f"group {new_id}",
                    "creation_time": time,
                    "last_sent_time": time,
                    **dict.fromkeys(COUNTERS, 0),
                }
                for new_id in draw_ids(transaction, Group, number)
            ]
            insert_rows(transaction, Group, rows)
        with count_statements() as counted:
            body = account.api.get(PATH, {"limit": 1000, **query}).get_json()
        assert body["size"] == number
        counts.append(counted.count)
    assert counts[0] == counts[1]
