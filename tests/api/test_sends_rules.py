"""Errors of a send: every code, the attribute that it names, and the order of several."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from app.clock import this_second
from app.db.models import Domain, Send
from app.distribution import COMMAND_LINE
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import SENDS, Client, check_error, conflict, invalid
from tests.support.sends import SendsApi, file
from tests.support.tenants import Tenant, new_email, new_mobile, new_tenant, unique

MEBIBYTE = 1024 * 1024
Case = tuple[dict[str, Any], str, dict[str, Any]]


def at(index: int, field: str | None = None, collection: str = "recipients") -> dict[str, Any]:
    """The place of an error in an array."""
    return {"collection": collection, "index": index, "field": field}


ERRORS: dict[str, Case] = {
    "type unknown": ({"type": "fax"}, "invalid_string", {"field": "type"}),
    "type no string": ({"type": 1}, "invalid_string", {"field": "type"}),
    "list no integer": ({"list_id": "x"}, "invalid_integer", {"field": "list_id"}),
    "list a float": ({"list_id": 1.5}, "invalid_integer", {"field": "list_id"}),
    "list a boolean": ({"list_id": True}, "invalid_integer", {"field": "list_id"}),
    "list unknown": ({"list_id": 2**40}, "invalid_id", {"field": "list_id"}),
    "list beyond 64 bits": ({"list_id": 2**63}, "invalid_id", {"field": "list_id"}),
    "group no integer": ({"group_id": "x"}, "invalid_integer", {"field": "group_id"}),
    "group unknown": ({"group_name": None, "group_id": 2**40}, "invalid_id", {"field": "group_id"}),
    "group negative": ({"group_name": None, "group_id": -5}, "invalid_id", {"field": "group_id"}),
    "group_name no string": ({"group_name": 5}, "invalid_string", {"field": "group_name"}),
    "group_name empty": ({"group_name": ""}, "not_empty", {"field": "group_name"}),
    "group_name too long": ({"group_name": "x" * 256}, "too_long", {"field": "group_name"}),
    "group_name with U+0000": ({"group_name": "a\x00"}, "invalid_string", {"field": "group_name"}),
    "group_name with a line break": ({"group_name": "a\nb"}, "invalid_string", {"field": "group_name"}),
    "group_name with an escape": ({"group_name": "a\x1b[2J"}, "invalid_string", {"field": "group_name"}),
    "group_name with a C1 control": ({"group_name": "a\x9bb"}, "invalid_string", {"field": "group_name"}),
    "group_name with a line separator": ({"group_name": "a\u2028b"}, "invalid_string", {"field": "group_name"}),
    "group_name of spaces": ({"group_name": " \u3000\t"}, "not_empty", {"field": "group_name"}),
    "no group": ({"group_name": None}, "group_missing", {"field": "group_name"}),
    "message no integer": ({"message_id": "x"}, "invalid_integer", {"field": "message_id"}),
    "message a boolean": ({"message_id": True}, "invalid_integer", {"field": "message_id"}),
    "message unknown": ({"message_id": 2**40}, "invalid_id", {"field": "message_id"}),
    "message beyond 64 bits": ({"message_id": 1e20}, "invalid_id", {"field": "message_id"}),
    "unsubscribe_type": ({"unsubscribe_type": "fax"}, "invalid_string", {"field": "unsubscribe_type"}),
    "priority": ({"priority": "urgent"}, "invalid_string", {"field": "priority"}),
    "priority of another type": ({"priority": 1}, "invalid_string", {"field": "priority"}),
    "secret values no array": ({"secret_values": "code"}, "invalid_array", {"field": "secret_values"}),
    "secret value no string": ({"secret_values": [1]}, "invalid_string", at(0, None, "secret_values")),
    "secret value of nobody": ({"secret_values": ["code"]}, "invalid_string", at(0, None, "secret_values")),
    "secret value empty": ({"secret_values": [""]}, "invalid_wildcard_name_characters", at(0, None, "secret_values")),
    "secret value #code": (
        {"secret_values": ["#code"]},
        "invalid_wildcard_name_characters",
        at(0, None, "secret_values"),
    ),
    "secret value too long": (
        {"secret_values": ["x" * 256]},
        "invalid_wildcard_name_too_long",
        at(0, None, "secret_values"),
    ),
    "secret address": ({"secret_values": ["Email"]}, "invalid_wildcard_name_reserved", at(0, None, "secret_values")),
    "secret id": ({"secret_values": ["id"]}, "invalid_wildcard_name_reserved", at(0, None, "secret_values")),
    "secret attachments": (
        {"secret_values": ["attachments"]},
        "invalid_wildcard_name_reserved",
        at(0, None, "secret_values"),
    ),
    "secret values too many": ({"secret_values": ["x"] * 21}, "too_long", {"field": "secret_values"}),
    "secret value twice": (
        {"recipients": [{"email": "a@example.com", "x": 1}], "secret_values": ["x", "X"]},
        "invalid_string",
        at(1, None, "secret_values"),
    ),
    "subject no string": ({"subject": 5}, "invalid_string", {"field": "subject"}),
    "subject too long": ({"subject": "x" * 999}, "too_long", {"field": "subject"}),
    "no subject": ({"subject": None}, "subject_empty", {"field": "subject"}),
    "empty subject": ({"subject": ""}, "subject_empty", {"field": "subject"}),
    "blank subject": ({"subject": " \t"}, "subject_empty", {"field": "subject"}),
    "from_name no string": ({"from_name": 5}, "invalid_string", {"field": "from_name"}),
    "from_name too long": ({"from_name": "x" * 256}, "too_long", {"field": "from_name"}),
    "from_address no string": ({"from_address": 5}, "invalid_string", {"field": "from_address"}),
    "from_address no email": ({"from_address": "nope"}, "invalid_from_address", {"field": "from_address"}),
    "from_address empty": ({"from_address": ""}, "invalid_from_address", {"field": "from_address"}),
    "from_address a number": ({"from_address": "61400000002"}, "invalid_from_address", {"field": "from_address"}),
    "from domain": ({"from_address": "a@strange.example"}, "invalid_from_address_domain", {"field": "from_address"}),
    "reply_to no string": ({"reply_to": 5}, "invalid_string", {"field": "reply_to"}),
    "reply_to": ({"reply_to": "nope"}, "invalid_reply_to_address", {"field": "reply_to"}),
    "reply_to with a break": ({"reply_to": "a@b.example\r\nX: y"}, "invalid_reply_to_address", {"field": "reply_to"}),
    "bcc no string": ({"bcc_address": 5}, "invalid_string", {"field": "bcc_address"}),
    "bcc no email": ({"bcc_address": "nope"}, "invalid_email_address", {"field": "bcc_address"}),
    "bcc domain": ({"bcc_address": "a@strange.example"}, "invalid_bcc_address_domain", {"field": "bcc_address"}),
    "html no string": ({"body_html": 5}, "invalid_string", {"field": "body_html"}),
    "html too long": ({"body_html": "x" * (MEBIBYTE + 1)}, "too_long", {"field": "body_html"}),
    "text no string": ({"body_text": []}, "invalid_string", {"field": "body_text"}),
    "text too long": ({"body_text": "x" * (MEBIBYTE + 1)}, "too_long", {"field": "body_text"}),
    "text of too many bytes": ({"body_text": "é" * (MEBIBYTE // 2 + 1)}, "too_long", {"field": "body_text"}),
    "no content": ({"body_text": None}, "content_missing", {"field": "body_html"}),
    "white space": ({"body_text": " \n", "body_html": "\u2003"}, "content_missing", {"field": "body_html"}),
    "empty content": ({"body_text": "", "body_html": ""}, "content_missing", {"field": "body_html"}),
    "include_unsubscribed": ({"include_unsubscribed": "yes"}, "invalid_boolean", {"field": "include_unsubscribed"}),
    "encoded": ({"recipient_data_html_encoded": 1}, "invalid_boolean", {"field": "recipient_data_html_encoded"}),
    "unknown attribute": ({"nonsense": 1}, "unexpected_field", {"field": "nonsense"}),
    "recipients no array": ({"recipients": {}}, "invalid_array", {"field": "recipients"}),
    "recipients empty": ({"recipients": []}, "not_empty", {"field": "recipients"}),
    "101 recipients": ({"recipients": [{"email": "a@example.com"}] * 101}, "too_long", {"field": "recipients"}),
    "recipient no object": ({"recipients": [5]}, "invalid_object", at(0)),
    "recipient null": ({"recipients": [None]}, "invalid_object", at(0)),
    "attachments no array": ({"attachments": "x"}, "invalid_array", {"field": "attachments"}),
    "attachment no object": ({"attachments": [file(), "x"]}, "invalid_object", at(1, None, "attachments")),
}

RECIPIENT_ERRORS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "nobody": ({}, "email_address_missing", "email"),
    "values alone": ({"first_name": "x"}, "email_address_missing", "email"),
    "nulls alone": ({"email": None, "mobile": None, "contact_id": None}, "email_address_missing", "email"),
    "an empty email": ({"email": ""}, "email_address_missing", "email"),
    "a mobile": ({"mobile": "61411111111"}, "email_address_missing", "email"),
    "bad email": ({"email": "nope"}, "invalid_email_address", "email"),
    "long email": ({"email": f"{'x' * 64}@{'y' * 60}.{'z' * 60}.{'a' * 60}.example"}, "invalid_email_address", "email"),
    "email no string": ({"email": 5}, "invalid_string", "email"),
    "contact_id no integer": ({"contact_id": "5"}, "invalid_integer", "contact_id"),
    "email and contact_id": (
        {"email": "a@example.com", "contact_id": 1},
        "recipient_destination_ambiguous",
        "contact_id",
    ),
    "contact_id and email": ({"contact_id": 1, "email": "a@example.com"}, "recipient_destination_ambiguous", "email"),
    "email and mobile": (
        {"email": "a@example.com", "mobile": "61411111111"},
        "recipient_destination_ambiguous",
        "mobile",
    ),
    "name with a dash": ({"first-name": "x"}, "invalid_wildcard_name_characters", "first-name"),
    "name with a dot": ({"a.b": "x"}, "invalid_wildcard_name_characters", "a.b"),
    "name beyond ASCII": ({"größe": "x"}, "invalid_wildcard_name_characters", "größe"),
    "name with a break": ({"a\n": "x"}, "invalid_wildcard_name_characters", "a\n"),
    "no name": ({"": "x"}, "invalid_wildcard_name_characters", ""),
    "hash": ({"#v": "x"}, "invalid_wildcard_name_characters", "#v"),
    "reserved name": ({"id": "5"}, "invalid_wildcard_name_reserved", "id"),
    "reserved name in capitals": ({"ID": None}, "invalid_wildcard_name_reserved", "ID"),
    "name too long": ({"x" * 256: "x"}, "invalid_wildcard_name_too_long", "x" * 256),
    "value too long": ({"v": "x" * 10_001}, "invalid_wildcard_value_too_long", "v"),
    "value a boolean": ({"v": True}, "invalid_string", "v"),
    "value an array": ({"v": ["x"]}, "invalid_string", "v"),
    "value an object": ({"v": {}}, "invalid_string", "v"),
    "value with U+0000": ({"v": "a\x00"}, "invalid_string", "v"),
    "attachments no array": ({"attachments": 5}, "invalid_array", "attachments"),
    "attachment no object": ({"attachments": [5]}, "invalid_object", "attachments.0"),
}

ATTACHMENT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no type": ({"type": None}, "required", "type"),
    "no name": ({"name": None}, "required", "name"),
    "no content": ({"content": None}, "required", "content"),
    "type no string": ({"type": 5}, "invalid_string", "type"),
    "name no string": ({"name": 5}, "invalid_string", "name"),
    "content no string": ({"content": 5}, "invalid_string", "content"),
    "unknown attribute": ({"size": 5}, "unexpected_field", "size"),
    "a path": ({"name": "../a.txt"}, "invalid_attachment_name", "name"),
    "a leading dot": ({"name": ".a.txt"}, "invalid_attachment_name", "name"),
    "an empty name": ({"name": ""}, "invalid_attachment_name", "name"),
    "a long name": ({"name": "a" * 252 + ".txt"}, "invalid_attachment_name", "name"),
    "U+0000": ({"name": "a\x00.txt"}, "invalid_attachment_name", "name"),
    "another extension": ({"name": "a.png"}, "invalid_attachment_extension", "name"),
    "no MIME type": ({"type": "text"}, "invalid_attachment_extension", "type"),
    "no base64": ({"content": "@@@@"}, "invalid_attachment_content", "content"),
    "base64 with a break": ({"content": "YQ=\n="}, "invalid_attachment_content", "content"),
    "base64 unpadded": ({"content": "YQ"}, "invalid_attachment_content", "content"),
    "base64 for URLs": ({"content": "_-8="}, "invalid_attachment_content", "content"),
    "U+0000 in base64": ({"content": "YQ=\x00"}, "invalid_attachment_content", "content"),
}


@each(
    ("wrong", "said"),
    [
        ({"type": 1}, "type must be one of: email, sms."),
        ({"type": "fax"}, "type must be one of: email, sms."),
        ({"group_name": "  "}, "group_name must not be blank; it has up to 255 characters."),
        ({"list_id": None}, "GET /v1/lists shows the lists with their ids."),
        ({"from_address": "a@gmail.com"}, f"the operator to add it, with `{COMMAND_LINE} domains add gmail.com` or"),
    ],
)
def test_an_error_says_what_would_be_accepted_or_who_can_help(
    sends: SendsApi, wrong: dict[str, Any], said: str
) -> None:
    answer = sends.post(sends.email(**wrong))
    assert (answer.status_code, said in answer.get_json()["developer_message"]) == (422, True), answer.text


def test_a_missing_stop_word_names_the_attribute_that_makes_it_needless(sends: SendsApi) -> None:
    answer = sends.post(sends.sms(body_text="Hello"))
    assert answer.get_json()["code"] == "missing_stop_words"
    assert "unsubscribe_type: link or none" in answer.get_json()["developer_message"]


@each("case", ERRORS)
def test_errors_of_attributes(sends: SendsApi, case: str) -> None:
    changes, code, where = ERRORS[case]
    body = invalid(sends.post(sends.email(**changes)), code, **where)
    assert "_embedded" not in body, body
    assert body["message"]
    assert where.get("field") is None or where["field"] in body["developer_message"]


@each("case", RECIPIENT_ERRORS)
def test_errors_of_a_recipient(sends: SendsApi, case: str) -> None:
    recipient, code, field = RECIPIENT_ERRORS[case]
    if set(recipient) & {"email", "mobile", "contact_id"} == set() and code != "email_address_missing":
        recipient = {"email": new_email(), **recipient}
    response = sends.post(sends.email(recipients=[{"email": new_email()}, recipient]))
    body = invalid(response, code, collection="recipients", index=1)
    assert "_embedded" not in body, body
    assert field is None or body["field"] == field


@each("case", ATTACHMENT_ERRORS)
def test_errors_of_an_attachment(sends: SendsApi, case: str) -> None:
    changes, code, field = ATTACHMENT_ERRORS[case]
    bad = {name: value for name, value in {**file(), **changes}.items() if value is not None}
    fine = file("fine.txt")
    response = sends.post(sends.email(attachments=[fine, bad]))
    invalid(response, code, collection="attachments", index=1, field=field)
    recipients = [{"email": new_email()}, {"email": new_email(), "attachments": [fine, bad]}]
    response = sends.post(sends.email(recipients=recipients))
    invalid(response, code, collection="recipients", index=1, field=f"attachments.1.{field}")


@pytest.mark.parametrize("name", ["type", "recipients"])
def test_attributes_that_are_always_required(sends: SendsApi, name: str) -> None:
    invalid(sends.post(sends.email(**{name: None})), "required", field=name)


def test_an_email_send_requires_a_list(sends: SendsApi) -> None:
    body = sends.email(list_id=None)
    for attempt in (body, {**body, "list_id": None}):
        assert "_embedded" not in invalid(sends.post(attempt), "required", field="list_id")


def test_each_recipient_with_a_contact_id_is_named_when_the_list_is_missing(sends: SendsApi) -> None:
    recipients = [{"contact_id": 5}, {"email": new_email()}, {"contact_id": 6, "x": []}]
    body = sends.email(list_id=None, recipients=recipients)
    assert listed(invalid(sends.post(body), "invalid_string", field="x")) == [
        ("invalid_string", "recipients", 2, "x"),
        ("required", None, None, "list_id"),
        ("recipient_missing_list_id", "recipients", 0, "contact_id"),
        ("recipient_missing_list_id", "recipients", 2, "contact_id"),
    ]
    body = {"list_id": None, **body, "recipients": recipients[:1] * 100}
    errors = listed(invalid(sends.post(body), "required", field="list_id"))
    assert errors == [
        ("required", None, None, "list_id"),
        *(("recipient_missing_list_id", "recipients", index, "contact_id") for index in range(99)),
    ]


# ---------------------------------------------------------------------------------------------- attachments


def test_names_of_attachments_must_be_unique(sends: SendsApi) -> None:
    response = sends.post(sends.email(attachments=[file("a.txt"), file("b.txt"), file("a.txt")]))
    invalid(response, "invalid_attachment_name", collection="attachments", index=2, field="name")
    recipients = [{"email": new_email()}, {"email": new_email(), "attachments": [file("c.txt"), file("a.txt")]}]
    response = sends.post(sends.email(attachments=[file("a.txt")], recipients=recipients))
    invalid(response, "invalid_attachment_name", collection="recipients", index=1, field="attachments.1.name")


def test_too_many_attachments_are_refused(sends: SendsApi) -> None:
    many = [file(f"a{n}.txt") for n in range(21)]
    body = invalid(sends.post(sends.email(attachments=many)), "too_long", field="attachments")
    assert "collection" not in body
    recipients = [{"email": new_email()}, {"email": new_email(), "attachments": many[15:]}]
    response = sends.post(sends.email(attachments=many[:15], recipients=recipients))
    invalid(response, "too_long", collection="recipients", index=1, field="attachments")


def test_too_large_attachments_are_refused(sends: SendsApi) -> None:
    whole, rest = bytes(10 * MEBIBYTE), b"x"
    octets = "application/octet-stream"
    response = sends.post(sends.email(attachments=[file("a.bin", octets, whole + rest)]))
    assert "collection" not in invalid(response, "too_long", field="attachments")
    recipients = [{"email": new_email(), "attachments": [file("b.bin", octets, rest)]}]
    response = sends.post(sends.email(attachments=[file("a.bin", octets, whole)], recipients=recipients))
    invalid(response, "too_long", collection="recipients", index=0, field="attachments")


def test_limits_of_attachments_are_settings(app: Flask, settings: Settings, sends: SendsApi) -> None:
    with app_with(settings, max_attachments=1, max_attachment_bytes=3) as strict:
        there = SendsApi(replace(sends.tenant, app=strict))
        there.send(there.email(attachments=[file(content=b"abc")]))
        for files in ([file(content=b"abcd")], [file(content=b""), file("b.txt", content=b"")]):
            invalid(there.post(there.email(attachments=files)), "too_long", field="attachments")


# ---------------------------------------------------------------------------------------------- rows of the account


def test_rows_of_another_account_do_not_exist(sends: SendsApi, other_tenant: Tenant) -> None:
    theirs = SendsApi(other_tenant)
    group = theirs.send(theirs.email()).group.id
    ids = {"list_id": theirs.list_id, "message_id": other_tenant.add_message(), "group_id": group}
    for name, value in ids.items():
        invalid(sends.post(sends.email(**{name: value})), "invalid_id", field=name)


@each("number", [2**63, 2**64, 10**30, -(2**63), -(10**30)])
def test_an_id_beyond_64_bits_is_reported_as_unknown(sends: SendsApi, number: int) -> None:
    for name, noun in (("list_id", "list"), ("group_id", "group"), ("message_id", "message")):
        sent = sends.email(group_name=None) if name == "group_id" else sends.email()
        data = json.dumps({**sent, name: number}).encode()
        body = invalid(sends.tenant.api.raw("POST", SENDS, data), "invalid_id", field=name)
        assert body["developer_message"] == f"{name}: there is no {noun} with an id beyond 64 bits."
    data = json.dumps(sends.email(recipients=[{"contact_id": number}])).encode()
    assert sends.tenant.api.raw("POST", SENDS, data).status_code == 202
    body = invalid(sends.post(sends.email(list_id=-1)), "invalid_id", field="list_id")
    assert body["developer_message"] == "list_id: there is no list -1."


def test_a_list_without_an_email_field_is_refused(sends: SendsApi) -> None:
    list_id = sends.tenant.add_list(fields=(("Mobile", "Mobile Phone"),))
    invalid(sends.post(sends.email(list_id=list_id)), "list_address_field_missing", field="list_id")


def test_the_sender_domain_must_be_exactly_a_configured_one(sends: SendsApi, other_tenant: Tenant) -> None:
    domain, pending = sends.tenant.domain, f"{unique('pending')}.example"
    sends.tenant.add(Domain, name=pending, creation_time=sends.send(sends.email()).send.creation_time)
    for strange in (f"sub.{domain}", f"evil{domain}", domain.partition(".")[2], pending, other_tenant.domain):
        response = sends.post(sends.email(from_address=f"a@{strange}"))
        if "." in strange:
            invalid(response, "invalid_from_address_domain", field="from_address")
        else:
            invalid(response, "invalid_from_address", field="from_address")
        response = sends.post(sends.email(bcc_address=f"a@{strange}"))
        invalid(
            response, "invalid_bcc_address_domain" if "." in strange else "invalid_email_address", field="bcc_address"
        )


def test_the_default_sender_needs_a_configured_domain(app: Flask) -> None:
    sends = SendsApi(new_tenant(app, default_from_address="hello@strange.example"))
    invalid(sends.post(sends.email(from_address=None)), "invalid_from_address_domain", field="from_address")


def test_a_send_without_any_sender_is_refused(app: Flask) -> None:
    sends = SendsApi(new_tenant(app, default_from_address=None))
    invalid(sends.post(sends.email(from_address=None)), "invalid_from_address", field="from_address")


def test_addresses_of_a_message_are_checked_alike(sends: SendsApi) -> None:
    body = sends.email(from_address=None)
    saved = sends.tenant.add_message
    for values, code, field in (
        ({"from_address": "ACME"}, "invalid_from_address", "from_address"),
        ({"from_address": "a@strange.example"}, "invalid_from_address_domain", "from_address"),
        ({"reply_to": "nope"}, "invalid_reply_to_address", "reply_to"),
    ):
        invalid(sends.post({**body, "message_id": saved(**values)}), code, field=field)


def test_an_incomplete_message_is_reported(sends: SendsApi) -> None:
    body = sends.email(subject=None, from_name=None, body_text=None)
    saved = sends.tenant.add_message
    for values, code, field in (
        ({"subject": None}, "subject_empty", "subject"),
        ({"from_name": None}, "from_name_required", "from_name"),
        ({"body_html": None, "body_text": None}, "content_missing", "body_html"),
    ):
        response = sends.post({**body, "message_id": saved(**values)})
        assert "_embedded" not in invalid(response, code, field=field)


def test_an_empty_text_overrides_the_message(sends: SendsApi) -> None:
    message = sends.tenant.add_message()
    invalid(sends.post(sends.email(message_id=message, subject="")), "subject_empty", field="subject")
    body = sends.email(message_id=message, body_text="", body_html="")
    invalid(sends.post(body), "content_missing", field="body_html")


def test_an_account_with_an_unconfirmed_owner_cannot_send(app: Flask) -> None:
    sends = SendsApi(new_tenant(app, owner_confirmed=False))
    assert "field" not in invalid(sends.post(sends.email()), "account_owner_unverified")


def test_id_and_name_of_different_groups_are_refused(sends: SendsApi) -> None:
    first, second = (sends.send(sends.email()).group for _ in range(2))
    for name in (second.name, unique("new")):
        invalid(sends.post(sends.email(group_id=first.id, group_name=name)), "invalid_id", field="group_id")


def test_an_sms_group_is_a_conflict(sends: SendsApi) -> None:
    group = sends.send(sends.sms()).group
    body = conflict(sends.post(sends.email(group_name=group.name)), field="group_name")
    assert body["fields"] == {"group_name": {"group_id": group.id}}
    conflict(sends.post(sends.email(group_name=None, group_id=group.id)), field="group_id")


def test_the_number_of_groups_is_limited(settings: Settings, sends: SendsApi) -> None:
    with app_with(settings, max_groups=2) as strict:
        there = SendsApi(replace(sends.tenant, app=strict))
        groups = [there.send(there.email()).group for _ in range(2)]
        invalid(there.post(there.email()), "group_count_exceeded", field="group_name")
        assert there.send(there.email(group_name=groups[0].name)).group.sent == 2
        other = SendsApi(replace(new_tenant(strict), app=strict))
        other.send(other.email())


# ---------------------------------------------------------------------------------------------- several errors


def listed(body: dict[str, Any]) -> list[tuple[str, str | None, int | None, str | None]]:
    """All errors of an answer, including the first one."""
    return [
        (error["code"], error["collection"], error["index"], error["field"]) for error in body["_embedded"]["errors"]
    ]


def test_errors_of_the_body_have_the_order_of_the_document(sends: SendsApi) -> None:
    body = {
        "subject": 5,
        "recipients": [
            {"email": "a"},
            {"email": new_email()},
            {"b-b": 1, "mobile": "61411111111", "a-a": 1},
            "x",
            {"attachments": [file("/"), file()], "email": "b", "v": True},
        ],
        "type": "email",
        "attachments": [file(), file("a.png")],
        "nonsense": 1,
        "group_name": "",
    }
    errors = listed(invalid(sends.post(body), "invalid_string", field="subject"))
    assert errors == [
        ("invalid_string", None, None, "subject"),
        ("invalid_email_address", "recipients", 0, "email"),
        ("invalid_wildcard_name_characters", "recipients", 2, "b-b"),
        ("invalid_wildcard_name_characters", "recipients", 2, "a-a"),
        ("email_address_missing", "recipients", 2, "email"),
        ("invalid_object", "recipients", 3, None),
        ("invalid_attachment_name", "recipients", 4, "attachments.0.name"),
        ("invalid_email_address", "recipients", 4, "email"),
        ("invalid_string", "recipients", 4, "v"),
        ("invalid_attachment_extension", "attachments", 1, "name"),
        ("unexpected_field", None, None, "nonsense"),
        ("not_empty", None, None, "group_name"),
        ("required", None, None, "list_id"),
    ]


def test_missing_attributes_have_the_documented_order(sends: SendsApi) -> None:
    assert listed(invalid(sends.post({}), "required", field="type"))[1:] == [("required", None, None, "recipients")]
    errors = listed(invalid(sends.post({"type": "email"}), "required", field="list_id"))
    assert errors[1:] == [("required", None, None, "recipients")]


def test_at_most_a_hundred_errors_are_listed(sends: SendsApi) -> None:
    recipients = [{"email": "x", "a-": 1} for _ in range(100)]
    assert len(listed(invalid(sends.post(sends.email(recipients=recipients)), "invalid_email_address"))) == 100


def test_errors_of_the_body_are_reported_before_those_of_the_account(sends: SendsApi) -> None:
    response = sends.post(sends.email(list_id=2**40, subject=None, recipients=[{"email": "x"}]))
    assert "_embedded" not in invalid(response, "invalid_email_address")


def test_errors_of_the_account_have_the_documented_order(app: Flask) -> None:
    sends = SendsApi(new_tenant(app, owner_confirmed=False))
    body = sends.email(
        bcc_address="a@strange.example",
        reply_to="nope",
        from_address="a@strange.example",
        subject=None,
        body_text=None,
        group_name=None,
        list_id=sends.tenant.add_list(fields=(("Mobile", "Mobile Phone"),)),
    )
    errors = listed(invalid(sends.post(body), "list_address_field_missing"))
    assert [code for code, *_ in errors] == [
        "list_address_field_missing",
        "content_missing",
        "group_missing",
        "account_owner_unverified",
        "subject_empty",
        "invalid_from_address_domain",
        "invalid_reply_to_address",
        "invalid_bcc_address_domain",
    ]


def test_errors_of_sms_have_the_documented_order(sends: SendsApi) -> None:
    number = sends.add_number("number", list_id=sends.tenant.add_list())
    response = sends.post(sends.sms(from_address=number, body_text="Hi", group_name=None, group_id=2**40))
    assert [code for code, *_ in listed(invalid(response, "invalid_id", field="group_id"))] == [
        "invalid_id",
        "unsubscribe_type_sender_mismatch",
        "from_address_invalid_list",
        "missing_stop_words",
    ]


def test_errors_that_depend_on_an_unknown_message_or_list_are_not_reported(sends: SendsApi) -> None:
    body = sends.email(subject=None, body_text=None)
    errors = listed(invalid(sends.post({**body, "message_id": 2**40, "list_id": 2**40}), "invalid_id", field="list_id"))
    assert [field for *_, field in errors] == ["list_id", "message_id"]
    response = sends.post(sends.sms(list_id=2**40, body_text="Reply OPTOUT"))
    assert "_embedded" not in invalid(response, "invalid_id", field="list_id")


# ---------------------------------------------------------------------------------------------- the body as a whole


@each("data", [b"", b"  ", b"{", b"\xff", b'{"type": NaN}'])
def test_a_body_that_is_not_json_is_refused(api: Client, data: bytes) -> None:
    check_error(api.raw("POST", "/v1/transactional-sends", data), 400, "invalid_request", "invalid_request")


@each("value", [[], "x", 5, None, True])
def test_a_body_that_is_not_an_object_is_refused(api: Client, value: Any) -> None:
    invalid(api.post("/v1/transactional-sends", value), "invalid_object")


@each("key", ["_schema", "__class__", "type", "0", "self"])
def test_wildcards_may_have_the_names_of_internal_attributes(sends: SendsApi, key: str) -> None:
    assert sends.send(sends.email(recipients=[{"email": new_email(), key: "x"}])).recipient.values == {key: "x"}
    response = sends.post(sends.email(recipients=[{"email": new_email(), key: []}]))
    invalid(response, "invalid_string", collection="recipients", index=0, field=key)


ODD_VALUES: list[Any] = [
    *(0, -1, 1.5, 2**64 - 1, 1e20, 1e300, True),
    *("", "x", "\U0001f600", "\x00", [], [[]], [{}], [None], {}, {"a": {}}),
]
ATTRIBUTES = (
    *(
        "type",
        "list_id",
        "group_id",
        "group_name",
        "message_id",
        "unsubscribe_type",
        "priority",
        "subject",
        "from_name",
    ),
    *("from_address", "reply_to", "bcc_address", "body_html", "body_text", "include_unsubscribed"),
    *("recipient_data_html_encoded", "recipients", "attachments"),
)


@pytest.mark.parametrize("make", [SendsApi.email, SendsApi.sms])
def test_any_json_value_of_any_attribute_is_answered(
    sends: SendsApi, make: Callable[[SendsApi], dict[str, Any]]
) -> None:
    """Each value is refused or accepted, and none causes an internal error."""
    for name in ATTRIBUTES:
        for value in ODD_VALUES:
            assert sends.post({**make(sends), name: value}).status_code in (202, 409, 422), (name, value)
    destination = {"mobile": new_mobile()} if make is SendsApi.sms else {"email": new_email()}
    for name in ("contact_id", "email", "mobile", "attachments", "v", "#v"):
        for value in ODD_VALUES:
            recipient = {**destination, name: value}
            assert sends.post({**make(sends), "recipients": [recipient]}).status_code in (202, 422), (
                name,
                value,
            )
    assert sends.rows(Send)


def test_an_unverified_domain_has_its_own_error(tenant: Tenant) -> None:
    """A domain that no account has is another error."""
    moment = this_second()
    for name in ("waiting.example", "later.example"):
        tenant.add(Domain, name=name, creation_time=moment, verified_time=None)
    sends = SendsApi(tenant)
    answer = sends.post(sends.email(from_address="a@waiting.example", bcc_address="b@later.example"))
    first, second = answer.get_json()["_embedded"]["errors"]
    for error, field, name in ((first, "from_address", "waiting.example"), (second, "bcc_address", "later.example")):
        assert (error["code"], error["field"]) == (f"invalid_{field}_domain", field)
        assert f"{field}: the domain {name} is added to the account, but not verified yet" in error["developer_message"]
    answer = sends.post(sends.email(from_address="a@strange.example"))
    assert "the domain strange.example is not configured" in answer.get_json()["developer_message"]
