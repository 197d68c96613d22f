"""Checks of the data of a seed file and the paths that their errors name."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FieldError, ServiceError
from app.plain_data import moment
from app.seed.errors import SeedError, located
from app.seed.nouns import ACCOUNT, checked_file
from tests.support.cases import each

FIRST_OF_2027 = datetime(2027, 1, 1, tzinfo=UTC)


def refusal(data: Any) -> str:
    """The error of the check of a whole file."""
    with pytest.raises(SeedError) as caught:
        checked_file(data)
    return str(caught.value)


@each(
    ("data", "message"),
    [
        ([], "must be a mapping, not a list"),
        ({"acounts": []}, "acounts: is unknown here; known: accounts, transports, routes"),
        ({"accounts": {}}, "accounts: must be a list, not a mapping"),
        ({"accounts": ["Acme"]}, "accounts[0]: must be a mapping, not text"),
        ({"accounts": [{}]}, "accounts[0].name: is required"),
        ({"accounts": [{"name": "a"}, {"name": None}]}, "accounts[1].name: is required"),
        ({"accounts": [{"name": True}]}, "accounts[0].name: must be text, not a truth value"),
    ],
)
def test_an_error_names_the_path_from_the_root(data: Any, message: str) -> None:
    assert refusal(data) == message


@each(
    ("account", "message"),
    [
        ({"owner_confirmed": "yes"}, "owner_confirmed: must be true or false, not text"),
        ({"allowed_networks": "10.0.0.0/8"}, "allowed_networks: must be a list, not text"),
        ({"allowed_networks": [7]}, "allowed_networks[0]: must be text: write '7' in quotes"),
        ({"default_from": {"name": "A"}}, "default_from.address: is required"),
        ({"keys": [{"access_level": "report"}]}, "keys[0].name: is required"),
        (
            {"keys": [{"name": "k", "expires": "soon"}]},
            "keys[0].expires: must be a date such as 2027-01-31, not 'soon'",
        ),
        (
            {"keys": [{"name": "k", "expires": 7}]},
            "keys[0].expires: must be a date such as 2027-01-31, not a number",
        ),
        ({"domains": [[]]}, "domains[0]: must be text, not a list"),
        ({"domains": [{}]}, "domains[0].name: is required"),
        (
            {"domains": [{"name": "a.example", "keys": [{"selector": "s"}]}]},
            "domains[0].keys[0].private_key: is required",
        ),
        (
            {"sms_senders": [{"address": 61400000001, "kind": "number"}]},
            "sms_senders[0].address: must be text: write '61400000001' in quotes",
        ),
        ({"unsubscribers": [{"list": "L"}]}, "unsubscribers[0]: must name either an email or a mobile"),
        (
            {"unsubscribers": [{"email": "a@b.c", "mobile": "1"}]},
            "unsubscribers[0]: must name either an email or a mobile",
        ),
        (
            {"blocked": [{"email": "a@b.c", "list": "L"}]},
            "blocked[0].list: is unknown here; known: email, mobile, reason",
        ),
        ({"lists": [{"name": "L", "fields": [{"name": "Email"}]}]}, "lists[0].fields[0].type: is required"),
        (
            {"lists": [{"name": "L", "contacts": ["ann"]}]},
            "lists[0].contacts[0]: must be a mapping of the contact's attributes",
        ),
        ({"messages": [{"name": "M"}]}, "messages[0].type: is required"),
        (
            {"messages": [{"name": "M", "type": "sms", "body_text": "a\0b"}]},
            "messages[0].body_text: contains a character that cannot be stored",
        ),
        ({"webhooks": [{"url": "x", "secrets": [{"id": "k1"}]}]}, "webhooks[0].secrets[0].secret: is required"),
    ],
)
def test_each_noun_refuses_unknown_attributes(account: dict[str, Any], message: str) -> None:
    assert refusal({"accounts": [{"name": "Acme", **account}]}) == f"accounts[0].{message}"


def test_all_errors_of_a_file_are_shown_a_line_each() -> None:
    account = {"name": 7, "keys": [{"name": "k", "expires": "soon"}, {}], "automations": [[]], "rate": 1}
    lines = refusal({"accounts": [account, {}], "routes": [{"name": "r"}]}).splitlines()
    assert [line.strip() for line in lines] == [
        "accounts[0].name: must be text: write '7' in quotes",
        "accounts[0].keys[0].expires: must be a date such as 2027-01-31, not 'soon'",
        "accounts[0].keys[1].name: is required",
        "accounts[0].automations[0]: must be a mapping, not a list",
        f"accounts[0].rate: is unknown here; known: {', '.join((*ACCOUNT.required, *ACCOUNT.optional))}",
        "accounts[1].name: is required",
        "routes[0].transports: is required",
    ]


def test_of_more_errors_than_are_shown_the_rest_are_counted() -> None:
    *_, last = refusal({"accounts": [{}] * 102}).splitlines()
    assert last.strip() == "accounts[99].name: is required (and 2 more)"


def test_an_empty_part_is_an_empty_list() -> None:
    parts = ("keys", "domains", "lists", "messages", "webhooks", "allowed_networks")
    checked = checked_file({"accounts": [{"name": "Acme", **dict.fromkeys(parts)}]})
    assert checked == {"accounts": [{"name": "Acme", **{part: [] for part in parts}}]}


@each(
    "value",
    [
        date(2027, 1, 1),
        "2027-01-01",
        datetime.fromisoformat("2027-01-01"),
        "2027-01-01T00:00:00Z",
        datetime(2027, 1, 1, 10, tzinfo=timezone(timedelta(hours=10))),
    ],
)
def test_dates_are_accepted_in_every_form(value: Any) -> None:
    assert moment(value, "expires") == FIRST_OF_2027


@each("value", ["20270101", "2027-W01", "2027-01-01T00:00+1060", "2027-01-01T24:00", "2027-02-30"])
def test_other_forms_of_dates_are_refused(value: str) -> None:
    with pytest.raises(ServiceError) as caught:
        moment(value, "expires")
    detail = f"must be a date such as 2027-01-31, not {value!r}"
    assert caught.value.errors == [FieldError("invalid_date", "expires", detail=detail)]


def test_errors_of_use_cases_name_their_place() -> None:
    errors = [FieldError("required", "subscribed.email", "contacts", 3, "is required"), FieldError("required")]
    with (
        pytest.raises(SeedError, match=r"^L\.contacts\[3\]\.subscribed\.email: is required \(and 1 more\)$"),
        located("L"),
    ):
        raise ServiceError.of(errors)
    with pytest.raises(SeedError, match=r"^keys\[1\]\.allowed\[2\]: The value must be a string\.$"), located("keys[1]"):
        raise ServiceError("invalid_string", field="allowed.2")
    with pytest.raises(SeedError, match=r"^a\.b\.c: "), located("a", {"b_c": "b.c"}):
        raise ServiceError("invalid_string", field="b_c")


data_like_yaml = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["accounts", "name", "lists", "fields", "keys", "type", "contacts"]), inner)
    ),
    max_leaves=20,
)


@given(data_like_yaml)
def test_any_data_is_accepted_or_refused(data: Any) -> None:
    with suppress(SeedError):
        checked_file(data)
