"""Tags and metadata: stored with a send, and shown (docs/tags.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from app.db.models import RecipientLabel, Send
from app.recipients.labels import metadata_label, tag_label
from tests.support.cases import each
from tests.support.client import SENDS, Client, bad_query, check_error, invalid, items
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_tenant

TAGS = ["receipt", "Shop Zürich"]
ORDER = {"order": "4711", "customer.id": "c-1"}


def labels_shown(client: Client, uuid: str) -> dict[str, Any]:
    """Tags and metadata of a recipient, as a key sees them."""
    body = client.get(f"{SENDS}/{uuid}").get_json()
    return {name: body[name] for name in ("tags", "metadata")}


def labels_of(tenant: Tenant) -> set[tuple[int, str]]:
    """The labels of the account, by recipient."""
    with tenant.services.database.read() as session:
        statement = select(RecipientLabel.recipient_id, RecipientLabel.label)
        return {(row[0], row[1]) for row in session.execute(statement.filter_by(account_id=tenant.id))}


def test_a_recipient_shows_the_tags_of_its_send_and_its_metadata(sends: SendsApi) -> None:
    people = [{"email": new_email(), "metadata": {"order": "4712", "seat": "7A"}}, {"email": new_email()}]
    sent = sends.send(sends.email(tags=["  receipt ", "Shop Zürich"], metadata=ORDER, recipients=people))
    both = {"order": "4712", "customer.id": "c-1", "seat": "7A"}
    assert [labels_shown(sends.tenant.api, uuid) for uuid in sent.uuids] == [
        {"tags": TAGS, "metadata": both},
        {"tags": TAGS, "metadata": ORDER},
    ]
    ids = [recipient.id for recipient in sent.recipients]
    assert labels_of(sends.tenant) == {
        (recipient_id, label)
        for recipient_id, metadata in zip(ids, (both, ORDER), strict=True)
        for label in [*map(tag_label, TAGS), *(metadata_label(*entry) for entry in metadata.items())]
    }


def test_metadata_of_one_recipient_is_not_that_of_the_others(sends: SendsApi) -> None:
    people = [{"email": new_email()}, {"email": new_email(), "metadata": {"order": "1"}}]
    first, second = sends.send(sends.email(recipients=people)).uuids
    assert labels_shown(sends.tenant.api, first) == {"tags": None, "metadata": None}
    assert labels_shown(sends.tenant.api, second) == {"tags": None, "metadata": {"order": "1"}}


def test_a_send_without_any_has_no_label(sends: SendsApi) -> None:
    people = [{"email": new_email(), "metadata": {"order": None}}]
    (uuid,) = sends.send(sends.email(tags=[], metadata={}, recipients=people)).uuids
    assert labels_shown(sends.tenant.api, uuid) == {"tags": None, "metadata": None}
    assert labels_of(sends.tenant) == set()


def test_text_messages_have_them_too(sends: SendsApi) -> None:
    (uuid,) = sends.send(sends.sms(tags=["code"], metadata={"login": "1"})).uuids
    assert labels_shown(sends.tenant.api, uuid) == {"tags": ["code"], "metadata": {"login": "1"}}


def test_a_key_that_sees_no_contacts_sees_the_tags_alone(sends: SendsApi) -> None:
    (uuid,) = sends.send(sends.email(tags=["receipt"], metadata=ORDER)).uuids
    reports = sends.tenant.client("report")
    assert labels_shown(reports, uuid) == {"tags": ["receipt"], "metadata": None}
    (item,) = reports.get(SENDS).get_json()["_embedded"]["recipients"]
    assert (item["tags"], item["metadata"]) == (["receipt"], None)


def test_a_string_of_that_name_is_a_wildcard_value_of_the_recipient(sends: SendsApi) -> None:
    """So it was before there was metadata (docs/sending.md#wildcard-values)."""
    people = [{"email": new_email(), "metadata": "m"}, {"email": new_email(), "metadata": 5, "tags": "t"}]
    sent = sends.send(sends.email(body_text="%%metadata%%", recipients=people))
    assert [recipient.values for recipient in sent.recipients] == [
        {"metadata": "m"},
        {"metadata": "5", "tags": "t"},
    ]
    assert labels_of(sends.tenant) == set()


MANY = {f"key{number}": "x" for number in range(20)}
KEY_FORM = "A key of metadata has 1 to 50 letters of A-Z and a-z, digits, underscores, hyphens and dots"
ERRORS: dict[str, tuple[dict[str, Any], str, str | None, str]] = {
    "tags no array": ({"tags": "a"}, "invalid_array", "tags", "tags must be an array."),
    "six tags": ({"tags": list("abcdef")}, "too_long", "tags", "tags has 6 elements; at most 5 are accepted."),
    "a tag no string": ({"tags": ["a", 5]}, "invalid_string", None, "A tag must be a string."),
    "a tag null": ({"tags": ["a", None]}, "invalid_string", None, ""),
    "a blank tag": ({"tags": ["a", "  "]}, "not_empty", None, "A tag must not be blank; it has up to 50 characters."),
    "a long tag": (
        {"tags": ["a", "x" * 51]},
        "too_long",
        None,
        "A tag has 51 characters; at most 50 are accepted.",
    ),
    "a tag of two lines": (
        {"tags": ["a", "b\nc"]},
        "invalid_string",
        None,
        "A tag must not contain a control character.",
    ),
    "a tag that ends with a slash": (
        {"tags": ["a", "b/ "]},
        "invalid_string",
        None,
        "A tag must not end with a slash.",
    ),
    "a tag twice": ({"tags": ["a", " a"]}, "invalid_string", None, "a occurs twice."),
    "metadata no object": ({"metadata": ["a"]}, "invalid_object", "metadata", "metadata must be an object of strings."),
    "21 keys": (
        {"metadata": {**MANY, "one": "x"}},
        "too_long",
        "metadata",
        "metadata has 21 keys; at most 20 are accepted.",
    ),
    "a key with a space": ({"metadata": {"a b": "x"}}, "invalid_string", "metadata.a b", f"{KEY_FORM}."),
    "an empty key": ({"metadata": {"": "x"}}, "invalid_string", "metadata.", f"{KEY_FORM}."),
    "a long key": ({"metadata": {"k" * 51: "x"}}, "invalid_string", f"metadata.{'k' * 51}", f"{KEY_FORM}."),
    "a number": ({"metadata": {"a": 1}}, "invalid_string", "metadata.a", "metadata.a must be a string."),
    "an empty value": (
        {"metadata": {"a": ""}},
        "not_empty",
        "metadata.a",
        "metadata.a must not be empty; leave it out, or give null.",
    ),
    "a long value": (
        {"metadata": {"a": "x" * 501}},
        "too_long",
        "metadata.a",
        "metadata.a has 501 characters; at most 500 are accepted.",
    ),
    "a value of two lines": (
        {"metadata": {"a": "b\nc"}},
        "invalid_string",
        "metadata.a",
        "metadata.a must not contain a control character.",
    ),
}


@each("name", ERRORS)
def test_what_is_wrong_is_refused(sends: SendsApi, name: str) -> None:
    changes, code, field, message = ERRORS[name]
    place = {"field": field} if field else {"collection": "tags", "index": 1, "field": None}
    response = sends.post(sends.email(**changes))
    invalid(response, code, **place)
    assert message in response.get_json()["developer_message"]
    assert sends.rows(Send) == []


def test_what_is_wrong_in_a_recipient_is_refused(sends: SendsApi) -> None:
    ann, bob = {"email": new_email()}, {"email": new_email()}
    for metadata, code, field in (
        (["a"], "invalid_string", "metadata"),
        (True, "invalid_string", "metadata"),
        ({"a": 1}, "invalid_string", "metadata.a"),
        ({**MANY, "one": "x"}, "too_long", "metadata"),
    ):
        response = sends.post(sends.email(recipients=[ann, {**bob, "metadata": metadata}]))
        invalid(response, code, collection="recipients", index=1, field=field)


def test_a_recipient_has_twenty_keys_together_with_those_of_the_send(sends: SendsApi) -> None:
    person = {"email": new_email(), "metadata": {"key0": "y", "one": "x"}}
    response = sends.post(sends.email(metadata=MANY, recipients=[person]))
    invalid(response, "too_long", collection="recipients", index=0, field="metadata")
    person["metadata"] = {"key0": "y"}
    (uuid,) = sends.send(sends.email(metadata=MANY, recipients=[person])).uuids
    assert labels_shown(sends.tenant.api, uuid)["metadata"] == {**MANY, "key0": "y"}


@dataclass(frozen=True)
class Shop:
    """Messages of an account, by name."""

    tenant: Tenant
    names: dict[str, str]

    def matches(self, *pairs: tuple[str, str], level: str = "standard") -> list[str]:
        """The names of the messages that match, in the order of the pages."""
        items_of_page = items(self.tenant.client(level).get(SENDS, query_string=list(pairs)), "recipients")
        return [self.names[item["uuid"]] for item in items_of_page]


@pytest.fixture
def shop(sends: SendsApi) -> Shop:
    """Three receipts, of which one is for a gift, a reminder, and a message without anything."""
    gift = {"tags": ["receipt", "gift"], "metadata": {"order": "1", "customer.id": "c"}}
    bodies: dict[str, dict[str, Any]] = {
        "first": {"tags": ["receipt"], "metadata": {"order": "1"}},
        "plain": {},
        "gift": gift,
        "reminder": {"tags": ["reminder"], "metadata": {"order": "2"}},
        "last": {"tags": ["receipt"]},
    }
    names = {sends.send(sends.email(**body)).uuids[0]: name for name, body in bodies.items()}
    return Shop(sends.tenant, names)


def test_messages_are_found_by_a_tag(shop: Shop) -> None:
    assert shop.matches(("tag", "receipt")) == ["last", "gift", "first"]
    assert shop.matches(("tag", "gift")) == ["gift"]
    assert shop.matches(("tag", "Receipt")) == []
    assert shop.matches(("tag", "receipt\x00")) == []
    assert shop.matches(("tag", "receipt"), level="report") == ["last", "gift", "first"]


def test_messages_are_found_by_one_of_several_tags(shop: Shop) -> None:
    assert shop.matches(("tag:in", "gift,reminder")) == ["reminder", "gift"]
    assert shop.matches(("tag:in", "receipt,gift")) == ["last", "gift", "first"]
    assert shop.matches(("tag:in", "gift")) == ["gift"]


def test_several_filters_are_met_together(shop: Shop) -> None:
    assert shop.matches(("tag", "receipt"), ("tag", "gift")) == ["gift"]
    assert shop.matches(("tag", "receipt"), ("metadata.order", "1")) == ["gift", "first"]
    assert shop.matches(("metadata.order", "1"), ("metadata.customer.id", "c")) == ["gift"]
    assert shop.matches(("tag", "receipt"), ("state", "queued"), ("creation_time:in", "2020-01-01..")) == [
        *("last", "gift", "first")
    ]
    assert shop.matches(("tag", "receipt"), ("creation_time:in", "..2020-01-01")) == []


def test_messages_are_found_by_an_entry_of_the_metadata(shop: Shop) -> None:
    assert shop.matches(("metadata.order", "1")) == ["gift", "first"]
    assert shop.matches(("metadata.order", "2")) == ["reminder"]
    assert shop.matches(("metadata.order", "3")) == []
    assert shop.matches(("metadata.Order", "1")) == []


def test_pages_of_a_tag_are_counted_and_go_on(shop: Shop) -> None:
    api = shop.tenant.api
    assert api.get(SENDS, query_string=[("tag", "receipt"), ("limit", "0")]).get_json()["size"] == 3
    pages, path = [], f"{SENDS}?tag=receipt&limit=2"
    while path:
        body = api.get(path).get_json()
        pages.append([shop.names[item["uuid"]] for item in body["_embedded"]["recipients"]])
        path = body["_links"].get("next", {}).get("href")
    assert pages == [["last", "gift"], ["first"]]
    assert shop.matches(("tag", "receipt"), ("offset", "2")) == ["first"]


def test_a_filter_finds_nothing_of_another_account(shop: Shop, app: Flask) -> None:
    other = new_tenant(app)
    assert items(other.api.get(f"{SENDS}?tag=receipt"), "recipients") == []
    assert items(other.api.get(f"{SENDS}?metadata.order=1"), "recipients") == []


QUERY_ERRORS = {
    "tag:ne=a": ("invalid_operator", "tag", "tag:ne: the operators are tag= and tag:in=."),
    "tag:=a": ("invalid_operator", "tag", "tag:: the operators are tag= and tag:in=."),
    "tag=": ("invalid_query_syntax", "tag", "tag: '' is not a text that is not empty."),
    "tag:in=a,": ("invalid_filter_list", "tag", "tag:in: element 2, '', is not a text that is not empty."),
    f"tag:in={','.join(map(str, range(101)))}": (
        "invalid_filter_list",
        "tag",
        "tag:in has 101 elements; at most 100 are accepted.",
    ),
    "metadata.order:in=1,2": (
        "invalid_operator",
        "metadata.order",
        "metadata.order:in: the only operator is metadata.order=.",
    ),
    "metadata.order:ne=1": (
        "invalid_operator",
        "metadata.order",
        "metadata.order:ne: the only operator is metadata.order=.",
    ),
    "metadata.order=": (
        "invalid_query_syntax",
        "metadata.order",
        "metadata.order: '' is not a text that is not empty.",
    ),
    "metadata=1": ("parameter_not_supported", "metadata", "metadata is not a query parameter of"),
    "metadata.=1": ("parameter_not_supported", "metadata.", "metadata. is not a query parameter of"),
    "metadata.a%20b=1": ("parameter_not_supported", "metadata.a b", "metadata.a b is not a query parameter of"),
    "metadata.{key}=1": ("parameter_not_supported", "metadata.{key}", "is not a query parameter of"),
}


@each("query", QUERY_ERRORS)
def test_a_wrong_filter_is_refused(tenant: Tenant, query: str) -> None:
    code, field, message = QUERY_ERRORS[query]
    body = bad_query(tenant.api.get(f"{SENDS}?{query}"), code, field=field)
    assert message in body["developer_message"]


def test_a_key_that_sees_no_contacts_finds_nobody_by_metadata(shop: Shop) -> None:
    response = shop.tenant.client("report").get(f"{SENDS}?metadata.order=1")
    body = check_error(response, 403, "permission_denied", field="metadata.order")
    assert "The filter metadata.order needs the scope contact.view." in body["developer_message"]


def test_it_is_no_filter_of_a_single_message(shop: Shop) -> None:
    (uuid, *_) = shop.names
    bad_query(shop.tenant.api.get(f"{SENDS}/{uuid}?tag=receipt"), "parameter_not_available", field="tag")
    bad_query(
        shop.tenant.api.get(f"{SENDS}/{uuid}?metadata.order=1"), "parameter_not_available", field="metadata.order"
    )
