"""Accepting sms: senders, opting out, and recipients (docs/sending.md#senders)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each
from tests.support.client import conflict, invalid
from tests.support.contacts import add_webhook, events, find, firings, unsubscribe
from tests.support.sends import SendsApi
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email, new_mobile, new_tenant, unique

MOBILE_ONLY = (("Mobile", "Mobile Phone"), ("First Name", "First Name"))
EMAIL_ONLY = (("Email", "Email"), ("First Name", "First Name"))
TEXT = {"type": "sms", "subject": None, "from_name": None, "body_html": None}


def message(sends: SendsApi, **values: Any) -> int:
    """An sms message of the account."""
    columns = {
        **TEXT,
        "name": unique("alert"),
        "from_address": sends.number,
        "body_text": "Alert. Reply STOP",
        **values,
    }
    return sends.tenant.add_message(**columns)


# ---------------------------------------------------------------------------------------------- queued rows


def test_the_queued_row_has_the_values_of_the_request(sends: SendsApi) -> None:
    mobile = new_mobile()
    body = sends.sms(recipients=[{"mobile": mobile, "code": 1234}], include_unsubscribed=True)
    accepted = sends.send(body)
    row, send = accepted.recipient, accepted.send
    assert (row.type, row.open_type, row.state, row.email, row.mobile) == ("sms", "sms", "queued", None, mobile)
    assert row.values == {"code": "1234"}
    assert (send.type, send.from_address, send.body_text) == ("sms", sends.number, body["body_text"])
    assert (send.unsubscribe_type, send.include_unsubscribed) == ("word", True)
    assert (send.subject, send.from_name, send.reply_to, send.bcc_address, send.body_html) == (None,) * 5
    assert (accepted.group.type, accepted.group.sent) == ("sms", 1)


def test_without_a_list_no_contacts_are_created(sends: SendsApi) -> None:
    rows = sends.send(
        sends.sms(list_id=None, recipients=[{"mobile": new_mobile(), "id": "7"} for _ in range(2)])
    ).recipients
    assert [(row.list_id, row.contact_id, row.values) for row in rows] == [(None, None, {"id": "7"})] * 2
    assert firings(sends.tenant) == []


def test_null_attributes_of_email_count_as_absent(sends: SendsApi) -> None:
    names = (
        "subject",
        "from_name",
        "reply_to",
        "bcc_address",
        "body_html",
        "recipient_data_html_encoded",
        "attachments",
    )
    recipient = {"mobile": new_mobile(), "email": "", "contact_id": None, "attachments": None}
    sends.send({**sends.sms(recipients=[recipient]), **dict.fromkeys(names)})


# ---------------------------------------------------------------------------------------------- contacts


def test_an_unknown_mobile_becomes_a_contact(sends: SendsApi) -> None:
    add_webhook(sends.tenant)
    mobile = new_mobile()
    row = sends.send(sends.sms(recipients=[{"mobile": mobile}, {"mobile": mobile}])).recipients[0]
    (made,) = find(sends.tenant, sends.list_id)
    assert (made["id"], made["mobile"], made["email"]) == (row.contact_id, mobile, None)
    assert events(sends.tenant) == firings(sends.tenant) == [("created", sends.list_id, row.contact_id)]


@pytest.mark.parametrize("fields", [PLAIN_FIELDS, MOBILE_ONLY])
def test_a_known_mobile_is_matched(sends: SendsApi, fields: tuple[tuple[Any, ...], ...]) -> None:
    """A mobile is matched even in a list whose identifier is the email (docs/sending.md#recipients)."""
    list_id = sends.tenant.add_list(fields=fields)
    contact = sends.tenant.new_contact(list_id, mobile=new_mobile(), first_name="Stored")
    body = sends.sms(list_id=list_id, recipients=[{"mobile": contact["mobile"]}])
    assert [sends.send(body).recipient.contact_id for _ in range(2)] == [contact["id"]] * 2
    assert find(sends.tenant, list_id) == [contact]


def test_of_contacts_with_the_same_mobile_the_oldest_active_one_is_used(sends: SendsApi) -> None:
    mobile = new_mobile()
    sends.tenant.new_contact(sends.list_id, mobile=mobile, is_active=False)
    active = [sends.tenant.new_contact(sends.list_id, mobile=mobile, email=new_email())["id"] for _ in range(2)]
    assert sends.send(sends.sms(recipients=[{"mobile": mobile}])).recipient.contact_id == min(active)


def test_a_new_contact_with_an_unsubscribed_mobile_is_unsubscribed(sends: SendsApi) -> None:
    mobile = new_mobile()
    unsubscribe(sends.tenant, mobile, kind="mobile")
    sends.send(sends.sms(recipients=[{"mobile": mobile}]))
    assert find(sends.tenant, sends.list_id)[0]["subscribed"] == {"email": True, "mobile": False}


def test_recipients_by_contact_id(sends: SendsApi) -> None:
    contact = sends.tenant.new_contact(sends.list_id, mobile=new_mobile(), email=new_email())
    rows = sends.send(
        sends.sms(recipients=[{"contact_id": contact_id} for contact_id in (contact["id"], 2**40)])
    ).recipients
    recipients = [(row.contact_id, row.mobile, row.email, row.reason) for row in rows]
    assert recipients == [
        (contact["id"], None, None, None),
        (None, None, None, "invalid_contact_id"),
    ]


# ---------------------------------------------------------------------------------------------- the sender


def test_any_approved_sender_may_be_used(sends: SendsApi) -> None:
    sends.tenant.add_sender("ACME", "alphanumeric")
    plain = sends.add_number("number")
    assert sends.send(sends.sms(from_address="ACME", unsubscribe_type="none")).send.from_address == "ACME"
    assert sends.send(sends.sms(from_address=plain, unsubscribe_type="none")).send.from_address == plain


@pytest.mark.parametrize("address", ["61499999999", "acme", "hello@acme.example", "", "+61400000002"])
def test_a_sender_must_be_approved(sends: SendsApi, address: str) -> None:
    sends.tenant.add_sender("ACME", "alphanumeric")
    invalid(sends.post(sends.sms(from_address=address)), "invalid_from_address", field="from_address")


def test_a_sender_of_another_account_is_refused(sends: SendsApi, other_tenant: Tenant) -> None:
    address = SendsApi(other_tenant).number
    invalid(sends.post(sends.sms(from_address=address)), "invalid_from_address", field="from_address")


def test_the_number_of_a_list_sends_for_that_list_only(sends: SendsApi) -> None:
    number = sends.add_number(list_id=sends.list_id)
    assert sends.send(sends.sms(from_address=number)).send.from_address == number
    for list_id in (None, sends.tenant.add_list()):
        response = sends.post(sends.sms(from_address=number, list_id=list_id))
        invalid(response, "from_address_invalid_list", field="from_address")


def test_without_a_sender_the_number_of_the_list_is_used(sends: SendsApi) -> None:
    assert sends.number
    number = sends.add_number(list_id=sends.list_id)
    assert sends.send(sends.sms(from_address=None)).send.from_address == number


def test_without_a_sender_the_only_one_of_the_account_is_used(sends: SendsApi) -> None:
    for list_id in (sends.list_id, None):
        assert sends.send(sends.sms(from_address=None, list_id=list_id)).send.from_address == sends.number


def test_the_only_sender_may_belong_to_another_list(sends: SendsApi) -> None:
    sends.add_number(list_id=sends.tenant.add_list())
    body = {"type": "sms", "group_name": unique("g"), "unsubscribe_type": "none", "body_text": "Hi"}
    for list_id in (sends.list_id, None):
        response = sends.post({**body, "list_id": list_id, "recipients": [{"mobile": new_mobile()}]})
        invalid(response, "from_address_invalid_list", field="from_address")


def test_without_a_sender_and_with_several_of_the_account_the_send_is_refused(sends: SendsApi) -> None:
    assert sends.number != sends.add_number()
    for list_id in (sends.list_id, None):
        response = sends.post(sends.sms(from_address=None, list_id=list_id))
        invalid(response, "invalid_from_address", field="from_address")


# ---------------------------------------------------------------------------------------------- opting out


def test_unsubscribe_type_is_required_for_a_virtual_number(sends: SendsApi) -> None:
    body = sends.sms(unsubscribe_type=None)
    invalid(sends.post(body), "required", field="unsubscribe_type")
    invalid(sends.post({**body, "unsubscribe_type": None}), "required", field="unsubscribe_type")


@pytest.mark.parametrize("kind", ["number", "alphanumeric"])
def test_unsubscribe_type_with_other_senders(sends: SendsApi, kind: str) -> None:
    """`unsubscribe_type` may be absent, and `none` is accepted. The other types require a number that can be replied
    to."""
    address = {"number": new_mobile(), "alphanumeric": "ACME"}[kind]
    sends.tenant.add_sender(address, kind)
    body = sends.sms(from_address=address)
    for unsubscribe_type in (None, "none"):
        assert sends.send({**body, "unsubscribe_type": unsubscribe_type}).send.unsubscribe_type == unsubscribe_type
    for unsubscribe_type in ("word", "link"):
        response = sends.post({**body, "unsubscribe_type": unsubscribe_type})
        invalid(response, "unsubscribe_type_sender_mismatch", field="unsubscribe_type")


@each("unsubscribe_type", ["word", "link", "none"])
def test_every_unsubscribe_type_is_accepted_with_a_virtual_number(sends: SendsApi, unsubscribe_type: str) -> None:
    assert sends.send(sends.sms(unsubscribe_type=unsubscribe_type)).send.unsubscribe_type == unsubscribe_type


@pytest.mark.parametrize("unsubscribe_type", ["link", "none"])
def test_only_the_type_word_requires_a_stop_word(sends: SendsApi, unsubscribe_type: str) -> None:
    sends.send(sends.sms(unsubscribe_type=unsubscribe_type, body_text="Nothing to reply"))


@each(
    ("text", "is_enough"),
    [
        ("Reply STOP", True),
        ("reply stop.", True),
        ("Reply OptOut", True),
        ("(STOP)", True),
        ("NONSTOP", False),
        ("Unstoppable", False),
        ("STOP_NOW", False),
        ("OPT OUT", False),
        ("Nothing to reply", False),
        ("%%name**friend%% STOP", True),
        ("%%name**STOP%%", True),
        ("%%name:HAS%%Hi!%%name:END%% Reply optout", True),
        ("%%name:HAS%%STOP%%name:END%%", False),
        ("%%name:HAS%%STOP%%name:ELSE%%STOP%%name:END%%", False),
    ],
)
def test_stop_words_of_the_list_are_accepted(sends: SendsApi, text: str, is_enough: bool) -> None:
    response = sends.post(sends.sms(body_text=text))
    if is_enough:
        assert response.status_code == 202, response.text
    else:
        body = invalid(response, "missing_stop_words", field="body_text")
        assert "OPTOUT" in body["developer_message"]


def test_stop_is_accepted_in_every_list_and_without_one(sends: SendsApi) -> None:
    lists = [sends.tenant.add_list(stop_words=words) for words in ([], ["ENDE"])]
    for list_id in (*lists, None):
        sends.send(sends.sms(list_id=list_id))
    sends.send(sends.sms(list_id=lists[1], body_text="Antworten Sie ende"))
    for list_id in (lists[0], None):
        response = sends.post(sends.sms(list_id=list_id, body_text="Antworten Sie ENDE"))
        invalid(response, "missing_stop_words", field="body_text")


def test_a_text_without_unsubscribe_type_requires_a_stop_word(sends: SendsApi) -> None:
    sends.tenant.add_sender("ACME", "alphanumeric")
    response = sends.post(sends.sms(from_address="ACME", unsubscribe_type=None, body_text="Hi"))
    invalid(response, "missing_stop_words", field="body_text")
    for text in ("Hi", "%%id:HAS%%Reply STOP%%id:END%%"):
        response = sends.post(
            sends.sms(message_id=message(sends, body_text=text), unsubscribe_type=None, body_text=None)
        )
        invalid(response, "missing_stop_words", field="body_text")


# ---------------------------------------------------------------------------------------------- messages


def test_a_message_supplies_sender_and_text(sends: SendsApi) -> None:
    body = {"type": "sms", "list_id": sends.list_id, "group_name": unique("g"), "message_id": message(sends)}
    send = sends.send({**body, "recipients": [{"mobile": new_mobile()}]}).send
    assert (send.from_address, send.body_text, send.unsubscribe_type) == (sends.number, "Alert. Reply STOP", None)


def test_a_request_overrides_the_message(sends: SendsApi) -> None:
    number = sends.add_number()
    body = sends.sms(message_id=message(sends), unsubscribe_type=None, from_address=number, body_text="Mine. STOP")
    send = sends.send(body).send
    assert (send.from_address, send.body_text) == (number, "Mine. STOP")


def test_the_type_of_the_message_overrides_that_of_the_request(sends: SendsApi) -> None:
    body = sends.sms(type="email", message_id=message(sends), unsubscribe_type=None)
    assert sends.send(body).recipient.type == "sms"
    email = {**body, "recipients": [{"email": new_email()}]}
    invalid(sends.post(email), "mobile_address_missing", collection="recipients", index=0, field="mobile")
    invalid(sends.post({**body, "subject": "x"}), "unexpected_field", field="subject")


def test_unsubscribe_type_is_redundant_with_a_message(sends: SendsApi) -> None:
    for unsubscribe_type in ("word", "link", "none"):
        response = sends.post(sends.sms(message_id=message(sends), unsubscribe_type=unsubscribe_type))
        invalid(response, "redundant_unsubscribe_type", field="unsubscribe_type")


def test_a_message_without_text_is_refused(sends: SendsApi) -> None:
    body = sends.sms(message_id=message(sends, body_text=None), unsubscribe_type=None, body_text=None)
    invalid(sends.post(body), "content_missing", field="body_text")


# ---------------------------------------------------------------------------------------------- other rules

FILE = {"type": "text/plain", "name": "a.txt", "content": "YQ=="}

ERRORS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "subject": ({"subject": "x"}, "unexpected_field", {"field": "subject"}),
    "from_name": ({"from_name": "x"}, "unexpected_field", {"field": "from_name"}),
    "reply_to": ({"reply_to": "a@example.com"}, "unexpected_field", {"field": "reply_to"}),
    "bcc_address": ({"bcc_address": "a@example.com"}, "unexpected_field", {"field": "bcc_address"}),
    "body_html": ({"body_html": "<p>STOP</p>"}, "unexpected_field", {"field": "body_html"}),
    "encoded": ({"recipient_data_html_encoded": False}, "unexpected_field", {"field": "recipient_data_html_encoded"}),
    "attachments": ({"attachments": [FILE]}, "unexpected_field", {"field": "attachments"}),
    "no attachments": ({"attachments": []}, "unexpected_field", {"field": "attachments"}),
    "unsubscribe_type unknown": ({"unsubscribe_type": "fax"}, "invalid_string", {"field": "unsubscribe_type"}),
    "unsubscribe_type no string": ({"unsubscribe_type": 1}, "invalid_string", {"field": "unsubscribe_type"}),
    "list unknown": ({"list_id": 2**40}, "invalid_id", {"field": "list_id"}),
    "no text": ({"body_text": None}, "content_missing", {"field": "body_text"}),
    "empty text": ({"body_text": ""}, "content_missing", {"field": "body_text"}),
    "white space": ({"body_text": " \n\t\u00a0\u3000"}, "content_missing", {"field": "body_text"}),
    "text too long": ({"body_text": "STOP" + "x" * 1024 * 1024}, "too_long", {"field": "body_text"}),
    "no group": ({"group_name": None}, "group_missing", {"field": "group_name"}),
}

RECIPIENT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "nobody": ({}, "mobile_address_missing", "mobile"),
    "an email": ({"email": "a@example.com"}, "mobile_address_missing", "mobile"),
    "two": ({"mobile": "61411111111", "email": "a@example.com"}, "recipient_destination_ambiguous", "email"),
    "two, by id": ({"mobile": "61411111111", "contact_id": 1}, "recipient_destination_ambiguous", "contact_id"),
    "plus": ({"mobile": "+61411111111"}, "invalid_mobile_address", "mobile"),
    "spaces": ({"mobile": "61 411 111 111"}, "invalid_mobile_address", "mobile"),
    "leading zero": ({"mobile": "0411111111"}, "invalid_mobile_address", "mobile"),
    "too short": ({"mobile": "6141111"}, "invalid_mobile_address", "mobile"),
    "too long": ({"mobile": "6141111111111111"}, "invalid_mobile_address", "mobile"),
    "no string": ({"mobile": 61411111111}, "invalid_string", "mobile"),
    "attachments": ({"mobile": "61411111111", "attachments": [FILE]}, "unexpected_field", "attachments"),
    "hash": ({"mobile": "61411111111", "#v": "x"}, "invalid_wildcard_name_characters", "#v"),
    "reserved": ({"mobile": "61411111111", "ID": "x"}, "invalid_wildcard_name_reserved", "ID"),
}


@each("case", ERRORS)
def test_errors_of_attributes(sends: SendsApi, case: str) -> None:
    changes, code, where = ERRORS[case]
    invalid(sends.post(sends.sms(**changes)), code, **where)


@each("case", RECIPIENT_ERRORS)
def test_errors_of_a_recipient(sends: SendsApi, case: str) -> None:
    recipient, code, field = RECIPIENT_ERRORS[case]
    body = sends.sms(recipients=[{"mobile": new_mobile()}, recipient])
    invalid(sends.post(body), code, collection="recipients", index=1, field=field)


def test_contact_id_requires_a_list(sends: SendsApi) -> None:
    body = sends.sms(list_id=None, recipients=[{"mobile": new_mobile()}, {"contact_id": 1}])
    response = sends.post(body)
    invalid(response, "recipient_missing_list_id", collection="recipients", index=1, field="contact_id")


def test_a_list_without_a_mobile_field_is_refused(sends: SendsApi) -> None:
    list_id = sends.tenant.add_list(fields=EMAIL_ONLY)
    invalid(sends.post(sends.sms(list_id=list_id)), "list_address_field_missing", field="list_id")


def test_an_account_with_an_unconfirmed_owner_cannot_send(sends: SendsApi) -> None:
    unconfirmed = SendsApi(new_tenant(sends.tenant.app, owner_confirmed=False))
    invalid(unconfirmed.post(unconfirmed.sms()), "account_owner_unverified")


def test_an_email_group_is_a_conflict(sends: SendsApi) -> None:
    group = sends.send(sends.email()).group
    body = conflict(sends.post(sends.sms(group_name=group.name)), field="group_name")
    assert body["fields"] == {"group_name": {"group_id": group.id}}
    body = conflict(sends.post(sends.sms(group_name=None, group_id=group.id)), field="group_id")
    assert body["fields"] == {"group_id": {"group_id": group.id}}
