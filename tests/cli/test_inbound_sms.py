"""`flask inbound sms` and `inbound receipt`: replies and receipts of text messages
(docs/delivery.md#recipient-states)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.clock import this_second
from app.db.counters import count_in_group
from app.db.models import BlockedAddress, Contact, List, SoftBounces, Unsubscriber
from app.inbound.kannel import reply_url
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_mobile, new_tenant


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account, which has a webhook."""
    tenant_rows = Rows(tenant.services, tenant.id)
    tenant_rows.add_webhook()
    return tenant_rows


@pytest.fixture
def number(tenant: Tenant) -> str:
    """A number of the account."""
    mobile = new_mobile()
    tenant.add_sender(mobile)
    return mobile


def sent(rows: Rows, number: str, recipient: Any, **content: Any) -> int:
    """A text that the gateway has accepted."""
    (recipient_id,) = rows.add_send([recipient], type="sms", from_address=number, **content)
    rows.change([recipient_id], state="sent", sent_time=this_second())
    with rows.services.database.write() as transaction:
        group_id = rows.recipient(recipient_id).group_id
        count_in_group(transaction, rows.account_id, group_id, this_second(), sent=1, delivered=1)
    return recipient_id


def events(rows: Rows) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in rows.payloads()]


def counters(rows: Rows, recipient_id: int) -> tuple[int, int, int]:
    group = rows.group_of(recipient_id)
    return group.delivered, group.bounced, group.unsubscribed


def addresses(rows: Rows, model: type[BlockedAddress | SoftBounces | Unsubscriber]) -> list[tuple[str, str]]:
    with rows.services.database.read() as session:
        rows_of_model = session.execute(select(model.kind, model.address).where(model.account_id == rows.account_id))
        return [(kind, address) for kind, address in rows_of_model]


# ------------------------------------------------------------------------------------------------ receipts


def test_a_receipt_acknowledges(bare: Cli, rows: Rows, number: str) -> None:
    """`acknowledged` when the handset's receipt arrives; it was counted as delivered before."""
    mobile = new_mobile()
    recipient_id = sent(rows, number, mobile)
    recipient = rows.recipient(recipient_id)
    report = bare.json("inbound", "receipt", "--uuid", recipient.uuid, "--status", "delivered")
    assert report == {"uuid": recipient.uuid, "state": "delivered", "effect": "recorded"}
    assert counters(rows, recipient_id) == (1, 0, 0)
    assert rows.steps(recipient_id) == [("acknowledged", "the gateway says: delivered")]
    (event,) = events(rows)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "object": "recipient",
        "event": "acknowledged",
        "id": recipient_id,
        "uuid": recipient.uuid,
        "group_id": recipient.group_id,
        "group_name": f"group {recipient.group_id}",
        "report_id": recipient.group_id,
        "message_type": "sms",
        "mobile": mobile,
    }


def test_the_text_of_a_receipt_names_no_host_of_the_installation(bare: Cli, rows: Rows, number: str) -> None:
    recipient_id = sent(rows, number, new_mobile())
    uuid = rows.recipient(recipient_id).uuid
    told = "no route at smsc1.internal:2775 (10.0.0.7)"
    bare.json("inbound", "receipt", "--uuid", uuid, "--status", "failed", "--detail", told)
    (event,) = events(rows)
    assert event["bounce_string"] == "no route at [hidden] ([hidden])"
    assert rows.steps(recipient_id) == [("bounced", "no route at [hidden] ([hidden])")]


def test_an_undelivered_text_bounces(bare: Cli, rows: Rows, number: str) -> None:
    """The text is `bounced`, and its group counts it so. A permanent bounce blocks the number
    (docs/contacts.md#blocked-addresses). What the receipt repeats of the message is not stored."""
    mobile = new_mobile()
    recipient_id = sent(rows, number, mobile)
    uuid = rows.recipient(recipient_id).uuid
    told = "stat:UNDELIV err:001 text:Your code is 482913"
    report = bare.json("inbound", "receipt", "--uuid", uuid, "--status", "failed", "--detail", told)
    assert report["state"] == "bounced"
    assert counters(rows, recipient_id) == (0, 1, 0)
    assert rows.steps(recipient_id) == [("bounced", "stat:UNDELIV err:001")]
    (event,) = events(rows)
    assert (event["event"], event["bounce_string"], event["bounce_reason"], event["is_temporary_bounce"]) == (
        "bounced",
        "stat:UNDELIV err:001",
        "not delivered",
        False,
    )
    assert addresses(rows, BlockedAddress) == [("mobile", mobile)]


def test_an_expired_text_is_a_temporary_bounce(bare: Cli, rows: Rows, number: str) -> None:
    """A phone that was off is no reason to block its number; five such bounces are, and a delivery resets their
    count."""
    mobile = new_mobile()
    for turn in range(5):
        assert addresses(rows, BlockedAddress) == []
        uuid = rows.recipient(sent(rows, number, mobile)).uuid
        bare.text("inbound", "receipt", "--uuid", uuid, "--status", "failed", "--detail", "stat:EXPIRED")
        assert events(rows)[turn]["is_temporary_bounce"] is True
    assert addresses(rows, BlockedAddress) == [("mobile", mobile)]
    other = new_mobile()
    for status in ("failed", "delivered"):
        uuid = rows.recipient(sent(rows, number, other)).uuid
        bare.text("inbound", "receipt", "--uuid", uuid, "--status", status, "--detail", "expired")
    assert addresses(rows, SoftBounces) == []


@each("first", ["delivered", "failed"])
@each("second", ["delivered", "failed"])
def test_the_first_receipt_decides(bare: Cli, rows: Rows, number: str, first: str, second: str) -> None:
    """A repeated receipt, or a later contradicting one, changes nothing."""
    recipient_id = sent(rows, number, new_mobile())
    uuid = rows.recipient(recipient_id).uuid
    bare.text("inbound", "receipt", "--uuid", uuid, "--status", first)
    before = (rows.recipient(recipient_id).state, counters(rows, recipient_id), rows.steps(recipient_id), events(rows))
    report = bare.json("inbound", "receipt", "--uuid", uuid, "--status", second)
    assert report["effect"] == "known"
    after = (rows.recipient(recipient_id).state, counters(rows, recipient_id), rows.steps(recipient_id), events(rows))
    assert before == after


def test_malformed_receipts_are_refused(bare: Cli, rows: Rows, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.inbound.PATIENCE", 0)
    unsent, mail = rows.add_send(["61411111111"], type="sms"), rows.add_send(["ann@example.com"])
    status = ("--status", "delivered")
    error = bare.refused("inbound", "receipt", "--uuid", rows.recipient(unsent[0]).uuid, *status)
    assert error == "uuid: has not been sent yet, so it cannot have a receipt"
    error = bare.refused("inbound", "receipt", "--uuid", rows.recipient(mail[0]).uuid, *status)
    assert error == "uuid: is an email, and only text messages have receipts"
    assert bare.refused("inbound", "receipt", "--uuid", "x", *status) == "there is no recipient with the uuid 'x'"
    assert "'seen' is not one of" in bare.refused("inbound", "receipt", "--uuid", "x", "--status", "seen")
    assert rows.payloads() == []


# ------------------------------------------------------------------------------------------------- replies


def reply(bare: Cli, mobile: str, number: str, text: str) -> None:
    bare.text("inbound", "sms", "--from", mobile, "--to", number, "--text", text)


def test_a_reply_has_the_fields_of_the_last_message(bare: Cli, rows: Rows, number: str) -> None:
    """`received` carries the uuid and ids of the last message to that mobile from that number."""
    mobile, list_id = new_mobile(), rows.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    sent(rows, number, mobile)
    last = sent(rows, number, {"mobile": mobile, "contact_id": contact_id}, list_id=list_id, message_id=7)
    elsewhere = sent(rows, new_mobile(), mobile)
    reply(bare, f"+{mobile}", number, "Thanks, see you\nthere")
    (event,) = events(rows)
    recipient = rows.recipient(last)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "object": "sms",
        "event": "received",
        "id": last,
        "uuid": recipient.uuid,
        "group_id": recipient.group_id,
        "group_name": f"group {recipient.group_id}",
        "report_id": recipient.group_id,
        "message_id": 7,
        "message_type": "sms",
        "list_id": list_id,
        "contact_id": contact_id,
        "mobile": mobile,
        "body_text": "Thanks, see you\nthere",
    }
    assert rows.steps(last) == [("received", "Thanks, see you\nthere")]
    assert rows.steps(elsewhere) == []
    assert counters(rows, last) == (1, 0, 0)
    assert addresses(rows, Unsubscriber) == []


def test_a_reply_of_an_unknown_mobile_is_reported(bare: Cli, rows: Rows, number: str) -> None:
    mobile = new_mobile()
    reply(bare, mobile, number, "Who is this?")
    (event,) = events(rows)
    del event["timestamp"]
    assert event == {
        "object": "sms", "event": "received", "message_type": "sms", "mobile": mobile, "body_text": "Who is this?",
    }  # fmt: skip


def test_without_a_message_a_contact_of_the_numbers_list_is_used(bare: Cli, tenant: Tenant, rows: Rows) -> None:
    """`list_id`, `contact_id`, and the contact's id as `id`."""
    mobile, number, list_id = new_mobile(), new_mobile(), tenant.add_list(allow_duplicates=True)
    tenant.add_sender(number, list_id=list_id)
    rows.add_contact(tenant.add_list(), None, mobile)
    rows.add_contact(list_id, None, mobile, is_active=False)
    contact_id = rows.add_contact(list_id, None, mobile)
    rows.add_contact(list_id, None, mobile)
    reply(bare, mobile, number, "hello")
    (event,) = events(rows)
    del event["timestamp"]
    assert event == {
        "object": "sms", "event": "received", "id": contact_id, "message_type": "sms", "list_id": list_id,
        "contact_id": contact_id, "mobile": mobile, "body_text": "hello",
    }  # fmt: skip


def test_a_message_without_a_list_leaves_it_to_the_number_who_wrote(bare: Cli, tenant: Tenant, rows: Rows) -> None:
    mobile, number, list_id = new_mobile(), new_mobile(), tenant.add_list()
    tenant.add_sender(number, list_id=list_id)
    contact_id = rows.add_contact(list_id, None, mobile)
    recipient_id = sent(rows, number, mobile)
    reply(bare, mobile, number, "hello")
    (event,) = events(rows)
    assert (event["id"], event["list_id"], event["contact_id"]) == (recipient_id, list_id, contact_id)
    assert event["uuid"] == rows.recipient(recipient_id).uuid


def test_the_contact_of_the_message_comes_before_that_of_the_number(bare: Cli, tenant: Tenant, rows: Rows) -> None:
    mobile, number, lists = new_mobile(), new_mobile(), (tenant.add_list(), tenant.add_list())
    tenant.add_sender(number, list_id=lists[0])
    contacts = [rows.add_contact(list_id, None, mobile) for list_id in lists]
    sent(rows, number, {"mobile": mobile, "contact_id": contacts[1]}, list_id=lists[1])
    reply(bare, mobile, number, "hello")
    (event,) = events(rows)
    assert (event["list_id"], event["contact_id"]) == (lists[1], contacts[1])


@pytest.mark.parametrize("text", ["STOP", "stop.", "Please Stop now", "optout"])
def test_a_stop_word_unsubscribes_from_the_list_of_the_message(
    bare: Cli, tenant: Tenant, rows: Rows, number: str, text: str
) -> None:
    """A whole word in any case, STOP or the list's own (docs/sending.md#opting-out-of-sms); the contact changes, and
    webhooks receive its event."""
    mobile, list_id = new_mobile(), tenant.add_list()
    contact_id = rows.add_contact(list_id, None, mobile)
    recipient_id = sent(rows, number, {"mobile": mobile, "contact_id": contact_id}, list_id=list_id)
    reply(bare, mobile, number, text)
    assert [(event["object"], event["event"], event["id"]) for event in events(rows)] == [
        ("sms", "received", recipient_id),
        ("contact", "updated", contact_id),
    ]
    with rows.services.database.read() as session:
        assert session.get_one(Contact, contact_id).subscribed_mobile is False
        entry = session.scalars(select(Unsubscriber).where(Unsubscriber.account_id == tenant.id)).one()
    assert (entry.kind, entry.address, entry.list_id) == ("mobile", mobile, list_id)
    assert counters(rows, recipient_id) == (1, 0, 1)
    assert rows.steps(recipient_id) == [("received", text), ("unsubscribed", None)]


@each("text", ["unstoppable", "stops", "no", "OPTOUTS"])
def test_part_of_a_word_is_no_stop_word(bare: Cli, tenant: Tenant, rows: Rows, number: str, text: str) -> None:
    mobile = new_mobile()
    sent(rows, number, mobile, list_id=tenant.add_list())
    reply(bare, mobile, number, text)
    assert addresses(rows, Unsubscriber) == []


def test_a_stop_word_of_another_list_does_not_unsubscribe(bare: Cli, tenant: Tenant, rows: Rows, number: str) -> None:
    mobile = new_mobile()
    sent(rows, number, mobile, list_id=tenant.add_list(stop_words=["BASTA"]))
    reply(bare, mobile, number, "optout")
    assert addresses(rows, Unsubscriber) == []
    reply(bare, mobile, number, "basta")
    assert addresses(rows, Unsubscriber) == [("mobile", mobile)]


def test_a_repeated_stop_word_counts_once(bare: Cli, tenant: Tenant, rows: Rows, number: str) -> None:
    mobile, list_id = new_mobile(), tenant.add_list()
    rows.add_contact(list_id, None, mobile)
    recipient_id = sent(rows, number, mobile, list_id=list_id)
    for _ in range(2):
        reply(bare, mobile, number, "STOP")
    assert counters(rows, recipient_id) == (1, 0, 1)
    assert [event["event"] for event in events(rows)] == ["received", "updated", "received"]


def test_without_a_list_a_stop_word_is_account_wide(bare: Cli, rows: Rows, number: str) -> None:
    mobile = new_mobile()
    recipient_id = sent(rows, number, mobile)
    reply(bare, mobile, number, "stop")
    with rows.services.database.read() as session:
        entry = session.scalars(select(Unsubscriber).where(Unsubscriber.account_id == rows.account_id)).one()
    assert (entry.address, entry.list_id) == (mobile, None)
    assert counters(rows, recipient_id) == (1, 0, 1)


def test_a_person_without_a_message_is_unsubscribed_from_the_list_of_the_number(
    bare: Cli, tenant: Tenant, rows: Rows
) -> None:
    mobile, number, list_id = new_mobile(), new_mobile(), tenant.add_list()
    tenant.add_sender(number, list_id=list_id)
    reply(bare, mobile, number, "stop")
    with rows.services.database.read() as session:
        entry = session.scalars(select(Unsubscriber).where(Unsubscriber.account_id == tenant.id)).one()
    assert (entry.address, entry.list_id) == (mobile, list_id)


def test_after_the_list_was_deleted_a_stop_word_unsubscribes_from_the_account(
    bare: Cli, tenant: Tenant, rows: Rows, number: str
) -> None:
    mobile, list_id = new_mobile(), tenant.add_list()
    sent(rows, number, mobile, list_id=list_id)
    with rows.services.database.write() as transaction:
        transaction.delete(transaction.get_one(List, list_id))
    reply(bare, mobile, number, "stop")
    with rows.services.database.read() as session:
        entry = session.scalars(select(Unsubscriber).where(Unsubscriber.account_id == tenant.id)).one()
    assert (entry.address, entry.list_id) == (mobile, None)


def test_of_accounts_that_share_a_number_the_last_to_write_is_answered(
    bare: Cli, tenant: Tenant, rows: Rows, number: str
) -> None:
    other = new_tenant(tenant.app)
    other.add_sender(number)
    theirs = Rows(other.services, other.id)
    theirs.add_webhook()
    mobile = new_mobile()
    mine = sent(rows, number, mobile)
    rows.change([mine], sent_time=this_second() - timedelta(hours=1))
    answered = sent(theirs, number, mobile)
    reply(bare, mobile, number, "hello")
    assert events(rows) == []
    assert [event["id"] for event in events(theirs)] == [answered]
    reply(bare, new_mobile(), number, "hello")
    assert len(events(rows)) == 1


def test_malformed_replies_are_refused(bare: Cli, rows: Rows) -> None:
    unknown = new_mobile()
    error = bare.refused("inbound", "sms", "--from", new_mobile(), "--to", unknown, "--text", "hello")
    assert error == f"to: no account has the sender '{unknown}'"
    error = bare.refused("inbound", "sms", "--from", "ACME", "--to", unknown, "--text", "hello")
    assert error == "--from: 'ACME' is not a mobile number in international format"
    assert rows.payloads() == []


def test_the_url_for_replies_is_printed(bare: Cli, tenant: Tenant) -> None:
    assert bare.text("inbound", "kannel-url") == reply_url(tenant.services.settings) + "\n"
