"""Accepting email: the answer, the queued rows, and the contacts and groups that are created."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import orjson
import pytest
from flask import Flask
from rq import Queue

from app.accounts.accounts import update_account
from app.clock import now, this_second
from app.db.models import Account, Contact, Domain, Group, Recipient, Send
from app.infrastructure.redis_client import SENDS as SENDS_QUEUE
from tests.support.cases import each
from tests.support.client import SENDS, Client, check_error, conflict, items
from tests.support.contacts import add_webhook, contact, events, find, firings, unsubscribe
from tests.support.sends import AcceptedSend, SendsApi, file
from tests.support.tenants import PLAIN_FIELDS, Tenant, new_email, new_mobile, new_tenant, unique

QUEUE_KEY = f"rq:queue:{SENDS_QUEUE}"


# ---------------------------------------------------------------------------------------------- the answer


def test_the_answer_has_a_uuid_per_recipient_in_order(sends: SendsApi) -> None:
    emails = [new_email() for _ in range(5)]
    accepted = sends.send(sends.email(recipients=[{"email": email} for email in emails]))
    assert len({uuid.UUID(text) for text in accepted.uuids}) == 5
    assert [row.email for row in accepted.recipients] == emails


def test_the_answer_links_itself_and_its_group(sends: SendsApi) -> None:
    body = sends.email()
    links = sends.send(body).body["_links"]
    assert set(links) == {"self", "transactional_group"}
    assert links["self"]["href"] == SENDS
    group = sends.tenant.api.get(links["transactional_group"]["href"]).get_json()
    assert (group["name"], group["type"], group["sent"]) == (body["group_name"], "email", 1)


def test_the_limited_levels_may_not_send(sends: SendsApi) -> None:
    for level in ("limited", "report"):
        response = sends.tenant.client(level).post(SENDS, sends.email())
        check_error(response, 403, "permission_denied")


def test_query_parameters_are_refused(sends: SendsApi) -> None:
    for name, code in (("limit", "parameter_not_available"), ("whatever", "parameter_not_supported")):
        response = sends.post(sends.email(), params={name: "1"})
        check_error(response, 400, "invalid_request", code, field=name)


def test_sends_cannot_be_deleted_as_a_collection(api: Client) -> None:
    response = api.delete(SENDS)
    check_error(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS, POST"


# ---------------------------------------------------------------------------------------------- queued rows


def test_a_recipient_is_due_at_once(sends: SendsApi) -> None:
    before = now()
    row = sends.send(sends.email()).recipient
    assert (row.state, row.type, row.open_type, row.attempts) == ("queued", "email", "not_opened", 0)
    assert (row.reason, row.worker, row.lease_time, row.sent_time, row.mobile) == (None,) * 5
    assert before <= row.due_time <= now()
    assert row.creation_time == row.due_time.replace(microsecond=0)


@each(("given", "kept"), [("high", "high"), ("normal", "normal"), (None, "normal")])
def test_the_priority_stands_in_the_send_and_in_the_queue(sends: SendsApi, given: str | None, kept: str) -> None:
    """An addition (docs/waiting.md#priority); without it a send has the normal one."""
    accepted = sends.send(sends.email(priority=given, recipients=[{"email": new_email()} for _ in range(3)]))
    assert accepted.send.priority == kept
    assert [row.priority for row in accepted.recipients] == [kept] * 3
    assert sends.send({**sends.email(), "priority": None}).send.priority == "normal"


@pytest.mark.parametrize("type_", ["email", "sms"])
def test_a_send_without_a_priority_has_that_of_the_account_for_its_type(sends: SendsApi, type_: str) -> None:
    """A send with its own priority keeps it, and the other type is not affected."""
    other = {"email": "sms", "sms": "email"}[type_]
    with sends.tenant.services.database.write() as transaction:
        account = transaction.get_one(Account, sends.tenant.id)
        update_account(transaction, account, {f"{type_}_priority": "high"})
    bodies = {"email": sends.email, "sms": sends.sms}
    accepted = sends.send(bodies[type_]())
    assert (accepted.send.priority, accepted.recipient.priority) == ("high", "high")
    assert sends.send({**bodies[type_](), "priority": None}).send.priority == "high"
    assert sends.send({**bodies[type_](), "priority": "normal"}).send.priority == "normal"
    assert sends.send(bodies[other]()).send.priority == "normal"


def test_a_recipient_refers_to_its_send_list_and_contact(sends: SendsApi) -> None:
    message = sends.tenant.add_message()
    accepted = sends.send(sends.email(message_id=message))
    row, send = accepted.recipient, accepted.send
    assert (row.list_id, row.message_id, row.group_id) == (sends.list_id, message, accepted.group.id)
    assert (send.list_id, send.message_id, send.group_id) == (sends.list_id, message, accepted.group.id)
    assert send.group_name == accepted.group.name


def test_the_send_stores_the_values_of_the_request(sends: SendsApi) -> None:
    body = sends.email(
        reply_to="answers@elsewhere.example",
        bcc_address=f"copy@{sends.tenant.domain}",
        body_html="<p>Hi</p>",
        include_unsubscribed=True,
        recipient_data_html_encoded=False,
    )
    response = sends.post(body)
    send = AcceptedSend(sends.tenant, response.get_json()).send
    names = ("subject", "from_name", "from_address", "reply_to", "bcc_address", "body_html", "body_text")
    assert {name: getattr(send, name) for name in names} == {name: body[name] for name in names}
    assert (send.type, send.include_unsubscribed, send.recipient_data_html_encoded) == ("email", True, False)
    assert (send.message_id, send.request_id) == (None, response.headers["X-Request-Id"])


def test_options_have_defaults(sends: SendsApi) -> None:
    send = sends.send(sends.email()).send
    assert (send.include_unsubscribed, send.recipient_data_html_encoded) == (False, True)


def test_null_means_absent(sends: SendsApi) -> None:
    absent = ("message_id", "group_id", "unsubscribe_type", "reply_to", "bcc_address", "body_html", "attachments")
    switches = ("include_unsubscribed", "recipient_data_html_encoded")
    recipient = {"email": new_email(), "mobile": None, "contact_id": None, "attachments": None}
    body = {**sends.email(recipients=[recipient]), **dict.fromkeys((*absent, *switches))}
    send = sends.send(body).send
    assert (send.reply_to, send.bcc_address, send.body_html, send.include_unsubscribed) == (None, None, None, False)
    assert send.recipient_data_html_encoded is True


def test_an_empty_destination_is_absent(sends: SendsApi) -> None:
    email = new_email()
    assert sends.send(sends.email(recipients=[{"email": email, "mobile": ""}])).recipient.email == email


def test_unsubscribe_type_has_no_effect(sends: SendsApi) -> None:
    assert sends.send(sends.email(unsubscribe_type="link")).send.unsubscribe_type is None
    message = sends.tenant.add_message()
    assert sends.send(sends.email(unsubscribe_type="word", message_id=message)).send.unsubscribe_type is None


def test_wildcard_values_are_stored_as_written(sends: SendsApi) -> None:
    values = {"Nick": "Bee", "amount": 12.5, "count": 3, "empty": "", "v_1": "<b>", "nothing": None}
    row = sends.send(sends.email(recipients=[{"email": new_email(), **values}])).recipient
    del values["nothing"]
    assert row.values == {**values, "amount": "12.5", "count": "3"}


def test_a_number_is_stored_with_its_text_in_the_request(sends: SendsApi) -> None:
    texts = {"parcel": "9400111899223197228490", "price": "1.50", "big": "1E2", "none": "-0", "left": "0", "pi": "3.0"}
    data = orjson.dumps(sends.email(recipients=[{"email": new_email(), "pi": "3.14"}, {"email": new_email()}]))
    numbers = ",".join(f'"{name}":{text}' for name, text in texts.items())
    data = data.replace(b'"pi":"3.14"', numbers.encode())
    headers = {"Idempotency-Key": unique("key")}
    answer = sends.tenant.api.raw("POST", SENDS, data, headers=headers)
    first, second = AcceptedSend(sends.tenant, answer.get_json()).recipients
    assert (answer.status_code, first.values, second.values) == (202, texts, {})
    assert sends.tenant.api.raw("POST", SENDS, data, headers=headers).get_json() == answer.get_json()
    conflict(sends.tenant.api.raw("POST", SENDS, data.replace(b"1.50", b"1.5"), headers=headers))


def test_a_number_with_more_than_ten_thousand_digits_is_too_long(sends: SendsApi) -> None:
    data = orjson.dumps(sends.email(recipients=[{"email": new_email(), "v": "pi"}]))
    for digits, status in ((9_998, 202), (9_999, 422)):
        answer = sends.tenant.api.raw("POST", SENDS, data.replace(b'"pi"', b"0." + b"1" * digits))
        assert answer.status_code == status, answer.text
    assert answer.get_json()["code"] == "invalid_wildcard_value_too_long"


def test_hash_values_are_stored_for_plain_data(sends: SendsApi) -> None:
    recipient = {"email": new_email(), "#v": "<b>x</b>"}
    row = sends.send(sends.email(recipients=[recipient], recipient_data_html_encoded=False)).recipient
    assert row.values == {"#v": "<b>x</b>"}


def test_a_number_beyond_64_bits_is_the_same_on_both_databases(sends: SendsApi) -> None:
    body = sends.email(recipients=[{"email": new_email(), "big": 0}])
    data = orjson.dumps(body).replace(b'"big":0', b'"big":100000000000000000000')
    response = sends.tenant.api.raw("POST", SENDS, data)
    assert AcceptedSend(sends.tenant, response.get_json()).recipient.values == {"big": "100000000000000000000"}


def test_limits_are_inclusive(sends: SendsApi) -> None:
    group = unique("g").ljust(255, "x")
    recipients = [{"email": new_email(), "n" * 255: "v" * 10_000}, *({"email": new_email()} for _ in range(99))]
    text = "é" * (512 * 1024)
    body = sends.email(recipients=recipients, subject="s" * 998, group_name=group, body_text=text, body_html=text)
    assert len(sends.send(body).uuids) == 100


def test_a_wake_up_is_queued_after_the_commit(sends: SendsApi) -> None:
    redis = sends.tenant.services.redis
    redis.delete(QUEUE_KEY)
    sends.post(sends.email(subject=None))
    assert Queue(SENDS_QUEUE, connection=redis).count == 0
    sends.send(sends.email())
    assert Queue(SENDS_QUEUE, connection=redis).count == 1


# ---------------------------------------------------------------------------------------------- messages


def test_a_message_supplies_all_of_its_fields(sends: SendsApi) -> None:
    message = sends.tenant.add_message(reply_to="answers@elsewhere.example")
    body = {"type": "email", "list_id": sends.list_id, "group_name": unique("g"), "message_id": message}
    send = sends.send({**body, "recipients": [{"email": new_email()}]}).send
    assert (send.subject, send.from_name) == ("Hi %%first_name**there%%", "Acme")
    assert (send.from_address, send.reply_to) == (f"hello@{sends.tenant.domain}", "answers@elsewhere.example")
    assert send.body_html == "<p>Welcome %%first_name**friend%%</p>"
    assert send.body_text == "Welcome %%first_name**friend%%"


def test_a_field_of_the_request_overrides_its_own_default_only(sends: SendsApi) -> None:
    message = sends.tenant.add_message()
    send = sends.send(sends.email(message_id=message, subject="Mine", body_text="My text")).send
    assert (send.subject, send.body_text) == ("Mine", "My text")
    assert send.body_html == "<p>Welcome %%first_name**friend%%</p>"


def test_an_empty_text_removes_that_part_of_the_message(sends: SendsApi) -> None:
    message = sends.tenant.add_message()
    send = sends.send(sends.email(message_id=message, body_html="", body_text=None)).send
    assert (send.body_html, send.body_text) == (None, "Welcome %%first_name**friend%%")


def test_an_empty_reply_address_removes_that_of_the_message(sends: SendsApi) -> None:
    message = sends.tenant.add_message(reply_to="answers@elsewhere.example")
    assert sends.send(sends.email(message_id=message, reply_to="")).send.reply_to is None
    assert sends.send(sends.email(reply_to="")).send.reply_to is None
    assert sends.send(sends.email(message_id=message, bcc_address="")).send.bcc_address is None


def test_the_type_of_the_message_overrides_that_of_the_request(sends: SendsApi) -> None:
    message = sends.tenant.add_message()
    accepted = sends.send(sends.email(type="sms", message_id=message))
    assert (accepted.send.type, accepted.recipient.type, accepted.group.type) == ("email", "email", "email")


def test_a_from_name_of_the_request_is_sufficient(sends: SendsApi) -> None:
    message = sends.tenant.add_message(from_name=None)
    assert sends.send(sends.email(message_id=message, from_name="Given")).send.from_name == "Given"


# ---------------------------------------------------------------------------------------------- senders


def test_without_a_from_address_the_default_sender_is_used(sends: SendsApi) -> None:
    address = f"default@{sends.tenant.domain}"
    send = sends.send(sends.email(from_address=None, from_name=None)).send
    assert (send.from_address, send.from_name) == (address, "Acme Default")
    send = sends.send(sends.email(from_address=None, from_name="Mine")).send
    assert (send.from_address, send.from_name) == (address, "Mine")
    message = sends.tenant.add_message(from_address=None)
    send = sends.send(sends.email(message_id=message, from_address=None, from_name=None)).send
    assert (send.from_address, send.from_name) == (address, "Acme")


def test_the_default_name_belongs_to_the_default_address(sends: SendsApi) -> None:
    assert sends.send(sends.email(from_name=None)).send.from_name is None


def test_any_configured_domain_may_send(sends: SendsApi) -> None:
    name = f"{unique('second')}.example"
    sends.tenant.add(Domain, name=name, creation_time=this_second(), verified_time=this_second())
    address = f"x@{name.upper()}"
    assert sends.send(sends.email(from_address=address)).send.from_address == address


def test_an_international_domain_is_compared_in_its_ascii_form(sends: SendsApi) -> None:
    sends.tenant.add(Domain, name="xn--bcher-kva.example", creation_time=this_second(), verified_time=this_second())
    for address in ("x@bücher.example", "x@BÜCHER.example", "x@xn--bcher-kva.example"):
        sends.send(sends.email(from_address=address, bcc_address=address))


# ---------------------------------------------------------------------------------------------- contacts


def test_an_unknown_recipient_becomes_a_contact_with_an_address_only(sends: SendsApi) -> None:
    email = new_email()
    row = sends.send(sends.email(recipients=[{"email": email, "first_name": "Ann", "plan": "gold"}])).recipient
    (made,) = find(sends.tenant, sends.list_id, email=email)
    assert (row.contact_id, row.email) == (made["id"], email)
    assert (made["mobile"], made["first_name"], made["plan"]) == (None, None, None)
    assert (made["is_active"], made["double_opt_in"]) == (True, False)
    assert made["subscribed"] == {"email": True, "mobile": True}


def test_a_new_contact_causes_an_event_and_triggers(sends: SendsApi) -> None:
    add_webhook(sends.tenant)
    existing = sends.tenant.new_contact(sends.list_id, email=new_email())
    recipients = [{"email": existing["email"]}, {"email": new_email()}, {"email": new_email()}]
    rows = sends.send(sends.email(recipients=recipients)).recipients
    created = [("created", sends.list_id, row.contact_id) for row in rows]
    assert events(sends.tenant) == created
    assert firings(sends.tenant) == created


def test_a_new_contact_follows_the_unsubscribers_list(sends: SendsApi) -> None:
    here, everywhere, elsewhere = (new_email() for _ in range(3))
    unsubscribe(sends.tenant, here, sends.list_id)
    unsubscribe(sends.tenant, everywhere)
    unsubscribe(sends.tenant, elsewhere, sends.tenant.add_list())
    sends.send(sends.email(recipients=[{"email": email} for email in (here, everywhere, elsewhere)]))
    flags = [find(sends.tenant, sends.list_id, email=email)[0]["subscribed"] for email in (here, everywhere, elsewhere)]
    assert [flag["email"] for flag in flags] == [False, False, True]


def test_a_known_recipient_is_found_in_any_case_and_not_updated(sends: SendsApi) -> None:
    existing = sends.tenant.new_contact(sends.list_id, email=new_email(), first_name="Stored")
    upper_case_email = existing["email"].upper()
    row = sends.send(sends.email(recipients=[{"email": upper_case_email, "first_name": "Other"}])).recipient
    assert (row.contact_id, row.email) == (existing["id"], upper_case_email)
    assert find(sends.tenant, sends.list_id) == [existing]


def test_a_new_address_twice_is_one_contact_and_two_recipients(sends: SendsApi) -> None:
    email = new_email()
    rows = sends.send(sends.email(recipients=[{"email": email}, {"email": email.upper()}])).recipients
    assert [row.email for row in rows] == [email, email.upper()]
    assert {row.contact_id for row in rows} == {existing["id"] for existing in find(sends.tenant, sends.list_id)}


def test_contacts_of_other_lists_are_not_used(sends: SendsApi) -> None:
    elsewhere = sends.tenant.new_contact(sends.tenant.add_list(), email=new_email())
    row = sends.send(sends.email(recipients=[{"email": elsewhere["email"]}])).recipient
    assert row.contact_id not in (None, elsewhere["id"])


def test_a_recipient_by_contact_id_is_queued_without_an_address(sends: SendsApi) -> None:
    """The address of the contact is read at delivery."""
    existing = sends.tenant.new_contact(sends.list_id, email=new_email(), mobile=new_mobile())
    row = sends.send(sends.email(recipients=[{"contact_id": existing["id"]}])).recipient
    assert (row.contact_id, row.email, row.mobile, row.reason) == (existing["id"], None, None, None)


def test_an_invalid_contact_id_is_accepted_and_marked(sends: SendsApi, other_tenant: Tenant) -> None:
    stranger = sends.tenant.new_contact(sends.tenant.add_list(), email=new_email())["id"]
    foreign = other_tenant.new_contact(other_tenant.add_list(), email=new_email())["id"]
    ids = [0, -1, 2**40, 2**63 - 1, stranger, foreign]
    accepted = sends.send(sends.email(recipients=[{"contact_id": contact_id} for contact_id in ids]))
    for row in accepted.recipients:
        assert (row.state, row.reason) == ("queued", "invalid_contact_id")
        assert (row.contact_id, row.email, row.mobile) == (None, None, None)
    assert accepted.group.sent == len(ids)


def test_of_contacts_with_the_same_address_the_oldest_active_one_is_used(sends: SendsApi) -> None:
    list_id, email = sends.tenant.add_list(fields=PLAIN_FIELDS, allow_duplicates=True), new_email()
    body = sends.email(list_id=list_id, recipients=[{"email": email}])
    inactive = sends.tenant.new_contact(list_id, email=email, is_active=False)
    assert sends.send(body).recipient.contact_id == inactive["id"]
    active = [sends.tenant.new_contact(list_id, email=email.upper())["id"] for _ in range(2)]
    assert sends.send(body).recipient.contact_id == min(active)
    assert len(find(sends.tenant, list_id)) == 3


def test_a_new_address_in_a_list_with_duplicates_creates_one_contact(sends: SendsApi) -> None:
    list_id, email = sends.tenant.add_list(fields=PLAIN_FIELDS, allow_duplicates=True), new_email()
    recipients = [{"email": email}, {"email": email}]
    rows = sends.send(sends.email(list_id=list_id, recipients=recipients)).recipients
    again = sends.send(sends.email(list_id=list_id, recipients=recipients)).recipients
    assert len({row.contact_id for row in (*rows, *again)}) == len(find(sends.tenant, list_id)) == 1
    assert len(firings(sends.tenant)) == 1


def test_a_system_list_can_be_sent_to_and_is_not_changed(sends: SendsApi) -> None:
    list_id = sends.tenant.add_list(fields=PLAIN_FIELDS, system=True)
    moment, email = this_second(), new_email()
    times = {"creation_time": moment, "last_modified_time": moment}
    inside = sends.tenant.add(Contact, list_id=list_id, email=email, email_key=email, identifier=email, **times)
    for recipient in ({"email": email}, {"contact_id": inside}):
        assert sends.send(sends.email(list_id=list_id, recipients=[recipient])).recipient.contact_id == inside
    response = sends.post(sends.email(list_id=list_id))
    check_error(response, 422, "validation_error", "list_not_mutable", field="list_id")
    assert [created["id"] for created in find(sends.tenant, list_id)] == [inside]


# ---------------------------------------------------------------------------------------------- attachments


def test_attachments_of_the_send_and_of_a_recipient_are_stored(sends: SendsApi) -> None:
    shared = [file("a.pdf", "application/pdf", b"%PDF"), file("b.txt")]
    own_files = [file("c.txt", content=b""), file("d (1).bin", "application/octet-stream", b"\x00\xff")]
    recipients = [{"email": new_email()}, {"email": new_email(), "attachments": own_files}]
    accepted = sends.send(sends.email(attachments=shared, recipients=recipients))
    owner = accepted.recipients[1].id
    attachments = [(row.recipient_id, row.name, row.mime_type, row.content) for row in accepted.attachments]
    assert attachments == [
        (None, "a.pdf", "application/pdf", b"%PDF"),
        (None, "b.txt", "text/plain", b"a"),
        (owner, "c.txt", "text/plain", b""),
        (owner, "d (1).bin", "application/octet-stream", b"\x00\xff"),
    ]
    positions = [row.position for row in accepted.attachments]
    assert positions == sorted(positions)
    assert len({row.content_id for row in accepted.attachments}) == 4


def test_only_the_charset_parameter_of_a_media_type_is_stored(sends: SendsApi) -> None:
    types = ["text/plain; name=evil.exe", 'text/plain; format=flowed; charset="iso-8859-1"']
    files = [file(f"{number}.txt", type_) for number, type_ in enumerate(types)]
    accepted = sends.send(sends.email(attachments=files))
    assert [row.mime_type for row in accepted.attachments] == ["text/plain", "text/plain; charset=iso-8859-1"]
    assert all(row.content_id.startswith("content_") for row in accepted.attachments)


def test_two_recipients_may_have_attachments_of_the_same_name(sends: SendsApi) -> None:
    recipients = [{"email": new_email(), "attachments": [file("mine.txt")]} for _ in range(2)]
    assert len(sends.send(sends.email(recipients=recipients)).attachments) == 2


def test_the_maximum_number_of_attachments_is_accepted(sends: SendsApi) -> None:
    shared = [file(f"a{n}.txt") for n in range(15)]
    own_files = [file(f"b{n}.txt") for n in range(5)]
    recipients = [{"email": new_email(), "attachments": own_files}]
    assert len(sends.send(sends.email(attachments=shared, recipients=recipients)).attachments) == 20
    assert sends.send(sends.email(attachments=[])).attachments == []


def test_the_maximum_size_of_attachments_is_accepted(sends: SendsApi) -> None:
    mebibyte = 1024 * 1024
    shared = [file("a.bin", "application/octet-stream", bytes(4 * mebibyte))]
    own_files = [file("b.bin", "application/octet-stream", bytes(6 * mebibyte))]
    recipients = [{"email": new_email(), "attachments": own_files} for _ in range(2)]
    accepted = sends.send(sends.email(attachments=shared, recipients=recipients))
    assert [len(row.content) // mebibyte for row in accepted.attachments] == [4, 6, 6]


# ---------------------------------------------------------------------------------------------- groups


def test_a_group_counts_recipients_over_all_of_its_sends(sends: SendsApi) -> None:
    body = sends.email(recipients=[{"email": new_email()} for _ in range(3)])
    first = sends.send(body).group
    assert (first.sent, first.failed_contacts, first.delivered) == (3, 0, 0)
    assert first.creation_time == first.last_sent_time
    long_ago = first.creation_time - timedelta(days=1)
    with sends.tenant.services.database.write() as transaction:
        transaction.get_one(Group, first.id).own_last_sent_time = long_ago
    second = sends.send(sends.email(group_name=None, group_id=first.id)).group
    assert (second.id, second.sent) == (first.id, 4)
    assert second.creation_time == first.creation_time <= second.last_sent_time


def test_id_and_name_of_the_same_group_are_accepted(sends: SendsApi) -> None:
    group = sends.send(sends.email()).group
    assert sends.send(sends.email(group_id=group.id, group_name=group.name)).group.sent == 2


def test_names_of_groups_are_compared_exactly(sends: SendsApi) -> None:
    name = unique("Group")
    groups = {
        sends.send(sends.email(group_name=text)).group.id for text in (name, name.lower(), f"{name}  x", f"{name} x")
    }
    assert len(groups) == 4


def test_names_of_groups_are_trimmed(sends: SendsApi) -> None:
    name = f"{unique('Group')} of \N{ZERO WIDTH JOINER}"
    group = sends.send(sends.email(group_name=f"\t{name}\u3000 ")).group
    assert group.name == name
    assert sends.send(sends.email(group_name=f"{name} ", group_id=group.id)).group.sent == 2
    assert sends.send(sends.email(group_name=" " + name)).group.sent == 3
    assert sends.send(sends.email(group_name=" " * 300 + "x" * 255)).group.name == "x" * 255


def test_accounts_have_groups_of_their_own(sends: SendsApi, other_tenant: Tenant) -> None:
    body = sends.email()
    theirs = SendsApi(other_tenant)
    assert sends.send(body).group.id != theirs.send(theirs.email(group_name=body["group_name"])).group.id
    assert [
        group["sent"] for group in items(other_tenant.api.get("/v1/transactional-groups"), "transactional-groups")
    ] == [1]


# ---------------------------------------------------------------------------------------------- all or nothing


@each(
    "changes",
    [
        {"recipients": [{"email": "good@example.com"}, {"email": "nope"}]},
        {"bcc_address": "a@strange.example"},
        {"body_text": None},
    ],
)
def test_an_invalid_send_writes_nothing(sends: SendsApi, changes: dict[str, Any]) -> None:
    response = sends.post(sends.email(**changes))
    assert response.status_code == 422
    assert [sends.rows(model) for model in (Send, Recipient, Group, Contact)] == [[], [], [], []]
    assert firings(sends.tenant) == []


def test_nothing_is_written_for_a_system_list_without_the_contact(sends: SendsApi) -> None:
    list_id = sends.tenant.add_list(system=True)
    assert sends.post(sends.email(list_id=list_id)).status_code == 422
    assert [sends.rows(model) for model in (Send, Recipient, Group, Contact)] == [[], [], [], []]


def test_another_account_cannot_see_the_group(sends: SendsApi, other_tenant: Tenant, app: Flask) -> None:
    accepted = sends.send(sends.email())
    assert other_tenant.api.get(accepted.body["_links"]["transactional_group"]["href"]).status_code == 404
    assert contact(sends.tenant, sends.list_id, accepted.recipient.contact_id)["email"] == accepted.recipient.email
    bare = new_tenant(app)
    assert SendsApi(bare).rows(Send) == []
