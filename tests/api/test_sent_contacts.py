"""The sent contacts of a message (docs/endpoints.md#sent-contacts)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from flask import Flask

from app.db.bulk import draw_ids, insert_rows
from app.db.models import Recipient, Send
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, items, not_found
from tests.support.filters import (
    WRONG,
    WRONG_CHOICES,
    WRONG_INTEGERS,
    WRONG_TIMES,
    Collection,
    choice_cases,
    integer_cases,
    moment,
    time_cases,
)
from tests.support.tenants import Tenant, new_email, new_tenant, unique

NAME = "sent-contacts"
FIELDS = ("contact_id", "list_id", "send_time", "report_id", "first_open_time", "last_open_time", "open_type")

OPEN_TYPES = {1: "not_opened", 2: "html", 3: "text", 4: "sms"}
NUMBERS: dict[str, dict[int, int | None]] = {
    "contact_id": {1: 501, 2: 502, 3: 503, 4: None},
    "list_id": {1: 31, 2: 31, 3: 32, 4: None},
    "report_id": {1: 1, 2: 2, 3: 3, 4: 4},
}
TIMES: dict[str, dict[int, datetime | None]] = {
    "send_time": {
        1: moment("2026-01-01T08:00:00"),
        2: moment("2026-01-02T00:00:00"),
        3: moment("2026-01-03T23:59:59"),
        4: moment("2026-01-04T12:00:00"),
    },
    "first_open_time": {1: None, 2: moment("2026-02-02T10:00:00"), 3: moment("2026-02-03T10:00:00"), 4: None},
    "last_open_time": {1: None, 2: moment("2026-03-02T10:00:00"), 3: moment("2026-03-01T10:00:00"), 4: None},
}


def row(tenant: Tenant, send_id: int, message_id: int | None, **values: Any) -> dict[str, Any]:
    """A sent recipient, without its id."""
    time = moment("2026-01-01")
    defaults: dict[str, Any] = {
        "uuid": unique("uuid"),
        "account_id": tenant.id,
        "send_id": send_id,
        "message_id": message_id,
        "group_id": 1,
        "list_id": None,
        "contact_id": None,
        "type": "email",
        "email": "ann@example.com",
        "mobile": None,
        "values": {},
        "state": "delivered",
        "reason": None,
        "creation_time": time,
        "attempts": 1,
        "sent_time": time,
        "first_open_time": None,
        "last_open_time": None,
        "open_type": "not_opened",
    }
    return {**defaults, **values}


def add_recipients(tenant: Tenant, rows: list[dict[str, Any]]) -> None:
    """Inserts recipients."""
    with tenant.services.database.write() as transaction:
        drawn = draw_ids(transaction, Recipient, len(rows))
        insert_rows(transaction, Recipient, [{"id": new_id, **row} for new_id, row in zip(drawn, rows, strict=True)])


def new_send(tenant: Tenant) -> int:
    """A send that recipients belong to."""
    return tenant.add(
        Send,
        request_id=unique("request"),
        creation_time=moment("2026-01-01"),
        type="email",
        group_id=1,
        group_name="Group",
        from_address=f"hello@{tenant.domain}",
        include_unsubscribed=False,
        recipient_data_html_encoded=True,
    )


@pytest.fixture(scope="module")
def sent(app: Flask) -> tuple[Tenant, str]:
    """An account with a message sent to four recipients, and the path of its sent contacts."""
    tenant = new_tenant(app)
    message, send = tenant.add_message(), new_send(tenant)
    add_recipients(
        tenant,
        [
            row(
                tenant,
                send,
                message,
                contact_id=NUMBERS["contact_id"][number],
                list_id=NUMBERS["list_id"][number],
                group_id=number,
                sent_time=TIMES["send_time"][number],
                first_open_time=TIMES["first_open_time"][number],
                last_open_time=TIMES["last_open_time"][number],
                open_type=OPEN_TYPES[number],
            )
            for number in (1, 2, 3, 4)
        ],
    )
    return tenant, f"/v1/messages/{message}/sent-contacts"


@pytest.fixture(scope="module")
def reports(sent: tuple[Tenant, str]) -> Callable[..., set[int]]:
    """The report ids, which are unique, of the sent contacts that match a query."""
    collection = Collection(sent[0].api, sent[1], NAME, "report_id")
    return lambda *pairs: collection.matching_keys(pairs)


def test_a_sent_contact_has_every_property_and_link(sent: tuple[Tenant, str]) -> None:
    tenant, path = sent
    (item,) = items(tenant.api.get(path, {"report_id": 2}), NAME)
    assert list(item) == [*FIELDS, "_links"]
    assert item == {
        "contact_id": 502,
        "list_id": 31,
        "send_time": "2026-01-02T00:00:00Z",
        "report_id": 2,
        "first_open_time": "2026-02-02T10:00:00Z",
        "last_open_time": "2026-03-02T10:00:00Z",
        "open_type": "html",
        "_links": {"list": {"href": "/v1/lists/31"}, "contact": {"href": "/v1/lists/31/contacts/502"}},
    }


def test_an_sms_without_a_list_has_no_links(sent: tuple[Tenant, str]) -> None:
    tenant, path = sent
    (item,) = items(tenant.api.get(path, {"report_id": 4}), NAME)
    assert (item["contact_id"], item["list_id"], item["open_type"], item["_links"]) == (None, None, "sms", {})


def test_the_envelope_and_the_order(sent: tuple[Tenant, str]) -> None:
    tenant, path = sent
    body = tenant.api.get(path).get_json()
    assert (body["offset"], body["limit"], body["size"], body["_links"]) == (0, 100, 4, {"self": {"href": path}})
    assert [item["report_id"] for item in body["_embedded"][NAME]] == [4, 3, 2, 1]


def test_contacts_sent_at_the_same_time_are_sorted_by_descending_id(tenant: Tenant) -> None:
    message, send = tenant.add_message(), new_send(tenant)
    early, late = moment("2026-01-01"), moment("2026-01-02")
    order = [(7, early), (9, early), (8, late), (6, late), (8, early)]
    add_recipients(tenant, [row(tenant, send, message, list_id=1, contact_id=who, sent_time=at) for who, at in order])
    path = f"/v1/messages/{message}/sent-contacts"
    contact_ids = [item["contact_id"] for item in items(tenant.api.get(path), NAME)]
    assert contact_ids == [8, 6, 9, 8, 7]
    pages = [items(tenant.api.get(path, {"limit": 2, "offset": offset}), NAME) for offset in (0, 2, 4)]
    assert [item["contact_id"] for page in pages for item in page] == contact_ids


def test_recipients_that_were_not_sent_to_are_not_shown(tenant: Tenant) -> None:
    message, send = tenant.add_message(), new_send(tenant)
    states = ("queued", "sending", "failed", "sent", "delivered", "bounced")
    rows = [
        row(
            tenant,
            send,
            message,
            state=state,
            contact_id=number,
            sent_time=None if number < 3 else moment("2026-01-01"),
        )
        for number, state in enumerate(states)
    ]
    add_recipients(tenant, rows)
    sent_contacts = items(tenant.api.get(f"/v1/messages/{message}/sent-contacts"), NAME)
    assert {item["contact_id"] for item in sent_contacts} == {3, 4, 5}


def test_exactly_the_sends_that_referred_to_the_message_count(tenant: Tenant) -> None:
    message, another = tenant.add_message(), tenant.add_message()
    for number, reference in enumerate((message, another, None, message)):
        add_recipients(tenant, [row(tenant, new_send(tenant), reference, contact_id=number)])
    sent_contacts = items(tenant.api.get(f"/v1/messages/{message}/sent-contacts"), NAME)
    assert {item["contact_id"] for item in sent_contacts} == {0, 3}


def test_a_send_that_was_only_accepted_shows_no_contacts(tenant: Tenant, customers: int) -> None:
    message = tenant.add_message()
    body = {
        "type": "email",
        "list_id": customers,
        "message_id": message,
        "group_name": unique("group"),
        "recipients": [{"email": new_email()}],
    }
    assert tenant.api.post(SENDS, body).status_code == 202
    assert items(tenant.api.get(f"/v1/messages/{message}/sent-contacts"), NAME) == []


@each(
    ("key", "value", "expected"),
    [
        *choice_cases("open_type", dict(OPEN_TYPES)),
        *[case for name, values in NUMBERS.items() for case in integer_cases(name, dict(values))],
        *[case for name, times in TIMES.items() for case in time_cases(name, dict(times))],
    ],
)
def test_filters(reports: Callable[..., set[int]], key: str, value: str, expected: set[int]) -> None:
    assert reports((key, value)) == expected


@each(
    ("name", "key", "value", "code"),
    [
        *[("open_type", *case) for case in (*WRONG, *WRONG_CHOICES)],
        *[(name, *case) for name in NUMBERS for case in (*WRONG, *WRONG_INTEGERS)],
        *[(name, *case) for name in TIMES for case in (*WRONG, *WRONG_TIMES)],
    ],
)
def test_invalid_filters_are_refused(sent: tuple[Tenant, str], name: str, key: str, value: str, code: str) -> None:
    tenant, path = sent
    bad_query(tenant.api.get(path, {key.format(name): value}), code, field=name)


@each(
    ("key", "value", "code"),
    [
        ("id", "1", "parameter_not_supported"),
        ("email", "a@example.com", "parameter_not_supported"),
        ("creation_time", "2026-01-01", "parameter_not_supported"),
        ("expand", "contact", "invalid_query_syntax"),
        ("fields", "id", "invalid_query_syntax"),
        ("q", "x", "text_search_not_supported"),
        ("order_by", "send_time", "invalid_order_by"),
    ],
)
def test_invalid_parameters_are_refused(sent: tuple[Tenant, str], key: str, value: str, code: str) -> None:
    tenant, path = sent
    bad_query(tenant.api.get(path, {key: value}), code, field=key)


@each("name", FIELDS)
def test_each_field_can_be_requested_alone(sent: tuple[Tenant, str], name: str) -> None:
    tenant, path = sent
    whole = items(tenant.api.get(path, {"report_id": 2}), NAME)[0]
    (item,) = items(tenant.api.get(path, {"report_id": 2, "fields": name}), NAME)
    assert item == {name: whole[name], "_links": whole["_links"]}


def test_the_time_zone_applies_to_times_and_filter_values(
    sent: tuple[Tenant, str], reports: Callable[..., set[int]]
) -> None:
    tenant, path = sent
    zone = ("_tz", "Australia/Brisbane")
    (item,) = items(tenant.api.get(path, [("report_id", "2"), zone]), NAME)
    times = (item["send_time"], item["first_open_time"], item["last_open_time"])
    assert times == ("2026-01-02T10:00:00+1000", "2026-02-02T20:00:00+1000", "2026-03-02T20:00:00+1000")
    assert reports(("send_time", "2026-01-04"), zone) == {3, 4}


def test_another_account_sees_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    message = tenant.add_message()
    add_recipients(tenant, [row(tenant, new_send(tenant), message)])
    not_found(other_tenant.api.get(f"/v1/messages/{message}/sent-contacts"))


def test_a_row_of_another_account_is_never_shown(tenant: Tenant, other_tenant: Tenant) -> None:
    message = tenant.add_message()
    add_recipients(other_tenant, [row(other_tenant, new_send(other_tenant), message)])
    assert items(tenant.api.get(f"/v1/messages/{message}/sent-contacts"), NAME) == []


def test_the_message_is_checked_before_the_query(api: Client) -> None:
    not_found(api.get("/v1/messages/0/sent-contacts", {"limit": "x"}))


@pytest.mark.parametrize("query", [{}, {"open_type": "not_opened"}, {"limit": 0}])
def test_a_page_of_1000_takes_as_many_statements_as_one_of_1(
    tenant: Tenant, count_statements: Callable[[], Any], query: dict[str, Any]
) -> None:
    counts = []
    for number in (1, 1000):
        message, send = tenant.add_message(), new_send(tenant)
        add_recipients(tenant, [row(tenant, send, message, contact_id=place) for place in range(number)])
        with count_statements() as counted:
            body = tenant.api.get(f"/v1/messages/{message}/sent-contacts", {"limit": 1000, **query}).get_json()
        assert body["size"] == number
        counts.append(counted.count)
    assert counts[0] == counts[1]
