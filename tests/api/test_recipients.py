"""`GET /v1/transactional-sends`: the collection of recipients (docs/endpoints.md#recipients)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from flask import Flask

from app.recipients.read import FILTERS, PROPERTIES
from tests.support.cases import each
from tests.support.client import SENDS, bad_query, check_error, items
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
from tests.support.rows import Rows
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_tenant

NAME = "recipients"
UUIDS = {number: f"0000000{number}-0000-4000-8000-0000000000ab" for number in (1, 2, 3, 4)}
STATES = {1: "delivered", 2: "bounced", 3: "queued", 4: "uncertain"}
MOBILES = {1: None, 2: "61411111111", 3: "61411111112", 4: None}
NUMBERS: dict[str, dict[int, int | None]] = {
    "contact_id": {1: 501, 2: 502, 3: None, 4: 504},
    "list_id": {1: 31, 2: 31, 3: None, 4: 33},
    "message_id": {1: 71, 2: 72, 3: None, 4: 74},
}
TIMES: dict[str, dict[int, datetime | None]] = {
    "creation_time": {
        1: moment("2026-01-01T08:00:00"),
        2: moment("2026-01-02T00:00:00"),
        3: moment("2026-01-03T23:59:59"),
        4: moment("2026-01-04T12:00:00"),
    },
    "send_time": {1: moment("2026-01-01T08:00:05"), 2: moment("2026-01-03T10:00:00"), 3: None, 4: None},
}


@pytest.fixture(scope="module")
def filled(app: Flask) -> tuple[Tenant, dict[str, int]]:
    """An account with four recipients, whose `further_visits` are their numbers; and their uuids with these."""
    tenant = new_tenant(app)
    rows = Rows(tenant.services, tenant.id)
    for number, uuid in UUIDS.items():
        columns: dict[str, Any] = {name: values[number] for name, values in NUMBERS.items()}
        given = {"uuid": uuid, "contact_id": columns.pop("contact_id"), "mobile": MOBILES[number]}
        address = {} if MOBILES[number] else {"email": f"Ann{number}@Example.com"}
        accepted = TIMES["creation_time"][number]
        (recipient_id,) = rows.add_send([{**given, **address}], group_id=40 + number, accepted=accepted, **columns)
        changes = {"state": STATES[number], "sent_time": TIMES["send_time"][number], "further_visits": number}
        rows.change([recipient_id], **changes)
    return tenant, {uuid: number for number, uuid in UUIDS.items()}


@pytest.fixture(scope="module")
def numbers(filled: tuple[Tenant, dict[str, int]]) -> Callable[..., set[int]]:
    """The numbers of the recipients that match a query."""
    collection = Collection(filled[0].api, SENDS, NAME, "further_visits")
    return lambda *pairs: collection.matching_keys(pairs)


def test_an_item_is_the_recipient_without_its_timeline(sends: SendsApi) -> None:
    first, second = sends.send(sends.email()).recipient, sends.send(sends.email()).recipient
    listed = items(sends.tenant.api.get(SENDS), NAME)
    for row, item in zip((second, first), listed, strict=True):
        alone = sends.tenant.api.get(f"{SENDS}/{row.uuid}").get_json()
        assert list(item) == [*PROPERTIES, "_links"]
        assert item == {name: value for name, value in alone.items() if name != "timeline"}


def test_the_newest_come_first(filled: tuple[Tenant, dict[str, int]]) -> None:
    tenant, _ = filled
    body = tenant.api.get(SENDS).get_json()
    assert (body["offset"], body["limit"], body["size"], body["_links"]) == (0, 100, 4, {"self": {"href": SENDS}})
    assert [item["further_visits"] for item in body["_embedded"][NAME]] == [4, 3, 2, 1]


@each(
    ("key", "value", "expected"),
    [
        *choice_cases("state", dict(STATES)),
        ("state", "failed", set()),
        ("state:in", "queued,failed", {3}),
        ("state:in", "sending,queued,uncertain", {3, 4}),
        ("state:in", "bounced,uncertain,sent", {2, 4}),
        ("state:ne", "", {1, 2, 3, 4}),
        *[case for name, values in NUMBERS.items() for case in integer_cases(name, dict(values))],
        *integer_cases("group_id", {number: 40 + number for number in UUIDS}),
        *[case for name, times in TIMES.items() for case in time_cases(name, dict(times))],
        *text_cases("mobile", dict(MOBILES)),
        ("email", "ann1@example.com", {1}),
        ("email", "ANN1@EXAMPLE.COM", {1}),
        ("email:in", "aNN4@example.com,ann1@example.com,nobody@example.com", {1, 4}),
        ("email:ne", "ann1@example.com", {2, 3, 4}),
        ("email", "", {2, 3}),
        ("email", "ann@example.com", set()),
        ("uuid", UUIDS[2], {2}),
        ("uuid", UUIDS[2].upper(), {2}),
        ("uuid:in", f"{UUIDS[1]},{UUIDS[4].upper()}", {1, 4}),
        ("uuid:ne", UUIDS[1], {2, 3, 4}),
        ("uuid", "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", set()),
    ],
)
def test_filters(numbers: Callable[..., set[int]], key: str, value: str, expected: set[int]) -> None:
    assert numbers((key, value)) == expected


@pytest.mark.parametrize("written", ["Änna@Example.com", "ann@X。example", "ÄNNA@BÜCHER.example"])
def test_an_address_outside_ascii_is_found_as_it_was_written(sends: SendsApi, written: str) -> None:
    row = sends.send(sends.email(recipients=[{"email": written}])).recipient
    assert [item["uuid"] for item in items(sends.tenant.api.get(SENDS, {"email": written}), "recipients")] == [row.uuid]


def test_all_filters_must_match(numbers: Callable[..., set[int]]) -> None:
    assert numbers(("email", "ann1@example.com"), ("state", "delivered"), ("send_time", "2026-01-01")) == {1}
    assert numbers(("email", "ann1@example.com"), ("state:in", "bounced,queued")) == set()
    assert numbers(("list_id", "31"), ("creation_time:in", "2026-01-02..")) == set()


@each(
    ("name", "key", "value", "code"),
    [
        *[("state", *case) for case in (*WRONG, *WRONG_CHOICES)],
        *[(name, *case) for name in (*NUMBERS, "group_id") for case in (*WRONG, *WRONG_INTEGERS)],
        *[(name, *case) for name in TIMES for case in (*WRONG, *WRONG_TIMES)],
        ("uuid", "{}", "1", "invalid_query_syntax"),
        ("uuid", "{}:in", f"{UUIDS[1]},1", "invalid_filter_list"),
        *[("id", "{}", "1", "parameter_not_supported"), ("type", "{}", "sms", "parameter_not_supported")],
        *[("fields", "{}", "timeline", "invalid_query_syntax"), ("expand", "{}", "message", "invalid_query_syntax")],
        *[("order_by", "{}", "id", "invalid_order_by"), ("q", "{}", "ann", "text_search_not_supported")],
    ],
)
def test_invalid_parameters_are_refused(
    filled: tuple[Tenant, dict[str, int]], name: str, key: str, value: str, code: str
) -> None:
    bad_query(filled[0].api.get(SENDS, {key.format(name): value}), code, field=name)


@pytest.mark.parametrize("level", ["report", "limited"])
def test_a_key_without_contact_view_sees_states_and_times_only(sends: SendsApi, level: str) -> None:
    row = sends.send(sends.email(recipients=[{"email": "ann.secret@example.com"}])).recipient
    Rows(sends.tenant.services, sends.tenant.id).change([row.id], state="bounced", reason="550 ann.secret is unknown")
    (whole,) = items(sends.tenant.api.get(SENDS), NAME)
    assert (whole["email"], whole["contact_id"]) == ("ann.secret@example.com", row.contact_id)
    response = sends.tenant.client(level).get(SENDS, {"state": "bounced"})
    assert "secret" not in response.text
    assert items(response, NAME) == [
        {
            **whole,
            **dict.fromkeys(("contact_id", "email", "reason")),
            "_links": {name: link for name, link in whole["_links"].items() if name != "contact"},
        }
    ]


@each("name", [name.format(key="order") for name in FILTERS])
def test_a_filter_by_what_a_key_may_not_see_is_denied(sends: SendsApi, name: str) -> None:
    """The filter is denied with any operator, and before its value is looked at. The answer must not tell whether
    anybody was written to."""
    hidden = name in ("email", "mobile", "contact_id", "metadata.order")
    for key in (name, f"{name}:ne", f"{name}:in", f"{name}:foo"):
        answer = sends.tenant.client("limited").get(SENDS, {key: "x..\x00"})
        if hidden:
            check_error(answer, 403, "permission_denied", field=name)
        else:
            assert answer.status_code != 403
        assert sends.tenant.api.get(SENDS, {key: "1"}).status_code in (200, 400)


def test_names_of_the_installation_are_hidden(sends: SendsApi) -> None:
    row = sends.send(sends.email()).recipient
    folder = sends.tenant.services.settings.data_dir
    rows = Rows(sends.tenant.services, sends.tenant.id)
    rows.change([row.id], state="bounced", reason=f"no file {folder}/mail")
    (item,) = items(sends.tenant.api.get(SENDS, {"fields": "reason"}), NAME)
    assert item["reason"] == "no file [hidden]"


def test_another_account_sees_none_of_them(sends: SendsApi, other_tenant: Tenant) -> None:
    row = sends.send(sends.email()).recipient
    for params in ({}, {"email": row.email}, {"uuid": row.uuid}, {"group_id": row.group_id}, {"state": "queued"}):
        assert items(other_tenant.api.get(SENDS, params), NAME) == []


def test_a_page_takes_the_same_statements_for_any_number_of_recipients(
    sends: SendsApi, count_statements: Callable[[], Any]
) -> None:
    def cost() -> int:
        with count_statements() as counted:
            assert sends.tenant.api.get(SENDS, {"state:in": "queued,bounced"}).status_code == 200
        count: int = counted.count
        return count

    sends.send(sends.email())
    cost()
    cost_of_one = cost()
    sends.send(sends.email(recipients=[{"email": f"p{number}@example.com"} for number in range(50)]))
    assert cost() == cost_of_one
