"""Test keys (docs/testing.md): everything runs the whole way, but no message leaves and nothing live changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import update

from app.accounts.testing import refreshed_test_account
from app.clock import now
from app.db.models import (
    Account,
    CapturedMessage,
    Contact,
    Event,
    Group,
    List,
    ListField,
    Message,
    QueueEntry,
    Recipient,
)
from app.errors import ServiceError
from app.ids import copied_id
from app.inbox.read import InboxFilter, list_captured
from app.lists.define import apply_fields, update_list
from app.maintenance import sweeps
from app.sends.delivery.drain import drain
from tests.support.client import SENDS, invalid
from tests.support.contacts import add_webhook, contacts_path
from tests.support.sends import SendsApi, file, rows_of
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email, new_mobile, unique
from tests.support.testing import refreshed


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The live account."""
    return SendsApi(tenant)


@pytest.fixture
def test(sends: SendsApi) -> Tenant:
    """The test account of the live one, whose list, message and sender it has copied."""
    assert sends.list_id
    assert sends.number
    sends.tenant.add_message(name="Welcome")
    return refreshed(sends.tenant)


test.__test__ = False  # type: ignore[attr-defined]


def captured(test: Tenant) -> list[CapturedMessage]:
    """The inbox, oldest first."""
    with test.services.database.read() as session:
        return list_captured(session, InboxFilter(test.id), 100)[::-1]


def folders(test: Tenant) -> list[Path]:
    settings = test.services.settings
    urls = (settings.email_transport_url, settings.sms_transport_url)
    return [path for url in urls if (path := Path(urlsplit(url).path)).exists()]


def left(test: Tenant, uuids: Iterable[str]) -> set[str]:
    """The recipients whose messages the transports have written. Other tests may send at the same time."""
    names = [file.name for folder in folders(test) for file in folder.iterdir()]
    return {uuid for uuid in uuids if any(uuid in name for name in names)}


def test_a_mail_of_a_test_key_is_captured_whole_and_never_leaves(sends: SendsApi, test: Tenant) -> None:
    address = new_email("Ann")
    body = sends.email(subject="Grüße", attachments=[file("a.txt")], recipients=[{"email": address}])
    accepted = SendsApi(test).send(body)
    drain(test.services)
    (message,) = captured(test)
    assert left(test, accepted.uuids) == set()
    assert (message.uuid, message.type, message.is_copy) == (accepted.uuids[0], "email", False)
    assert (message.address, message.subject) == (address.lower(), "Grüße")
    mail: Any = message_from_bytes(message.content, policy=policy.default)
    assert (mail["To"], mail["Subject"]) == (address, "Grüße")
    assert [attachment.get_filename() for attachment in mail.iter_attachments()] == ["a.txt"]
    recipient = test.api.get(f"{SENDS}/{accepted.uuids[0]}").get_json()
    assert (recipient["state"], [step["step"] for step in recipient["timeline"]]) == ("delivered", ["sent"])
    assert (accepted.group.sent, accepted.group.delivered) == (1, 1)


def test_a_blind_copy_is_captured_too(sends: SendsApi, test: Tenant) -> None:
    copied = f"copy@{test.domain}"
    accepted = SendsApi(test).send(sends.email(bcc_address=copied))
    drain(test.services)
    assert [(message.is_copy, message.address == copied) for message in captured(test)] == [
        (False, False),
        (True, True),
    ]
    assert left(test, accepted.uuids) == set()


def test_a_text_message_is_captured_with_its_text(sends: SendsApi, test: Tenant) -> None:
    mobile = new_mobile()
    body = sends.sms(recipients=[{"mobile": mobile}])
    accepted = SendsApi(test).send(body)
    drain(test.services)
    (message,) = captured(test)
    assert left(test, accepted.uuids) == set()
    assert (message.type, message.sender, message.address) == ("sms", sends.number, mobile)
    assert (message.content.decode(), message.subject) == (body["body_text"], None)
    assert (accepted.recipient.state, accepted.recipient.segments) == ("sent", 1)


def test_live_and_test_messages_of_one_batch_go_their_own_ways(sends: SendsApi, test: Tenant) -> None:
    live = [sends.send(sends.email()).uuids[0] for _ in range(3)]
    tests = [SendsApi(test).send(sends.email()).uuids[0] for _ in range(3)]
    drain(test.services)
    assert left(test, [*live, *tests]) == set(live)
    assert {message.uuid for message in captured(test)} == {*tests}


def test_a_message_is_captured_once_however_often_it_is_sent(sends: SendsApi, test: Tenant) -> None:
    accepted = SendsApi(test).send(sends.email())
    drain(test.services)
    row = accepted.recipient
    with test.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.id == row.id).values(state="queued", attempts=0))
        transaction.add(
            QueueEntry(
                recipient_id=row.id,
                account_id=test.id,
                priority="normal",
                state="queued",
                due_time=now(),
                ready_time=now(),
                attempts=0,
            )
        )
    drain(test.services)
    assert accepted.recipient.state == "delivered"
    assert [message.uuid for message in captured(test)] == accepted.uuids


def test_nothing_of_a_test_is_in_the_live_account(sends: SendsApi, test: Tenant) -> None:
    kept = (Contact, Group, Recipient, CapturedMessage)
    SendsApi(test).send(sends.email())
    drain(test.services)
    assert [len(rows_of(sends.tenant, model)) for model in kept] == [0, 0, 0, 0]
    assert [len(rows_of(test, model)) for model in kept] == [1, 1, 1, 1]
    assert sends.tenant.api.get("/v1/transactional-groups?limit=0").get_json()["size"] == 0


def test_events_of_a_test_are_marked_and_go_to_webhooks_of_the_test_account_only(sends: SendsApi, test: Tenant) -> None:
    add_webhook(sends.tenant)
    add_webhook(test)
    SendsApi(test).send(sends.email())
    sends.send(sends.email())
    drain(test.services)
    events = {
        account.id: [json.loads(row.payload) for row in rows_of(account, Event)] for account in (test, sends.tenant)
    }
    assert [(event["event"], event["test"]) for event in events[test.id]] == [("created", True), ("sent", True)]
    assert [(event["event"], "test" in event) for event in events[sends.tenant.id]] == [
        ("created", False),
        ("sent", False),
    ]


def test_a_test_account_has_copies_that_follow_the_originals(sends: SendsApi, test: Tenant) -> None:
    live = sends.tenant
    (message,) = rows_of(live, Message)
    with live.services.database.write() as transaction:
        transaction.execute(update(Message).where(Message.id == message.id).values(subject="Changed"))
        transaction.execute(update(Account).where(Account.id == live.id).values(time_zone="Asia/Tokyo"))
        (score,) = [row for row in rows_of(live, ListField) if row.key == "score"]
        transaction.delete(transaction.get_one(ListField, score.id))
    live.add(ListField, list_id=sends.list_id, position=50, name="New", key="new", type="Text Field", options=[])
    again = refreshed(live)
    assert again.id == test.id
    (copied_list,), (changed,) = rows_of(test, List), rows_of(test, Message)
    assert (copied_list.id, changed.id) == (copied_id(sends.list_id), copied_id(message.id))
    assert (changed.subject, rows_of(test, ListField, list_id=copied_list.id)[-1].key) == ("Changed", "new")
    assert "score" not in {row.key for row in rows_of(test, ListField)}
    with live.services.database.read() as session:
        assert session.get_one(Account, test.id).time_zone == "Asia/Tokyo"


def change_live_list(sends: SendsApi, allow_duplicates: bool, *fields: dict[str, str]) -> None:
    """Changes the live list, and then the copy."""
    with sends.tenant.services.database.write() as transaction:
        row = transaction.get_one(List, sends.list_id)
        update_list(transaction, row, {"allow_duplicates": allow_duplicates})
        apply_fields(transaction, row, fields)
    refreshed(sends.tenant)


def test_contacts_of_tests_follow_a_list_that_forbids_duplicates(sends: SendsApi, test: Tenant) -> None:
    path, ann, bob = contacts_path(sends.list_id), {"email": new_email()}, {"email": new_email()}
    change_live_list(sends, True)
    oldest, *_ = (test.new_contact(sends.list_id, **body)["id"] for body in (ann, ann, bob))
    change_live_list(sends, False)
    refused = test.api.post(path, ann)
    assert (refused.status_code, refused.get_json()["fields"]) == (409, {"email": {"contact_id": oldest}})
    assert test.api.post(path, bob).status_code == 409
    identifiers = [row.identifier for row in rows_of(test, Contact)]
    assert identifiers == [ann["email"], None, bob["email"]]
    change_live_list(sends, True)
    assert test.api.post(path, ann).status_code == 201


def test_contacts_of_tests_follow_a_list_that_gets_address_fields(sends: SendsApi) -> None:
    live, mobile = sends.tenant, new_mobile()
    list_id = live.add_list(fields=(("First Name", "First Name"),))
    test = refreshed(live)

    def refreshed_identifiers(allow_duplicates: bool, *types: str) -> list[str | None]:
        with live.services.database.write() as transaction:
            row = transaction.get_one(List, list_id)
            update_list(transaction, row, {"allow_duplicates": allow_duplicates})
            apply_fields(transaction, row, [{"name": type_, "type": type_} for type_ in types])
        refreshed(live)
        return [row.identifier for row in rows_of(test, Contact, list_id=copied_id(list_id))]

    assert refreshed_identifiers(True) == []
    test.new_contact(list_id, first_name="Ann")
    assert refreshed_identifiers(False) == [None]
    assert refreshed_identifiers(False, "Mobile Phone") == [None]
    test.new_contact(list_id, mobile=mobile)
    assert refreshed_identifiers(True) == [None, None]
    assert refreshed_identifiers(False) == [None, mobile]
    assert refreshed_identifiers(False, "Email") == [None, None]


def test_contacts_of_tests_lose_the_values_of_a_field_that_changes_its_type(sends: SendsApi) -> None:
    live, long_ago = sends.tenant, datetime(2020, 1, 1, tzinfo=UTC)
    list_id = live.add_list(fields=(("Email", "Email"), ("Size", "Text Field"), ("Shade", "Text Field")))
    test = refreshed(live)
    made = test.new_contact(list_id, email=new_email(), size="large", shade="dark")
    other = test.new_contact(list_id, email=new_email(), shade="light")
    with live.services.database.write() as transaction:
        transaction.execute(update(Contact).where(Contact.account_id == test.id).values(last_modified_time=long_ago))
        apply_fields(transaction, transaction.get_one(List, list_id), [{"name": "Size", "type": "Number"}])
    refreshed(live)
    rows = rows_of(test, Contact, list_id=copied_id(list_id))
    assert [row.values for row in rows] == [{"shade": "dark"}, {"shade": "light"}]
    assert [row.last_modified_time == long_ago for row in rows] == [False, True]
    path = contacts_path(list_id)
    assert test.api.get(f"{path}/{made['id']}").get_json()["size"] is None
    assert test.api.patch(f"{path}/{other['id']}", {"size": 3}).get_json()["size"] == 3


def test_a_refresh_without_a_change_writes_nothing(sends: SendsApi, test: Tenant) -> None:
    with StatementCounter(test.services.database.engine) as counted, test.services.database.write() as transaction:
        refreshed_test_account(transaction, transaction.get_one(Account, sends.tenant.id))
    assert [statement for statement in counted.statements if not statement.startswith(("BEGIN", "SELECT"))] == []


def test_a_test_fails_where_life_would(sends: SendsApi, test: Tenant) -> None:
    body = sends.email(from_address="ann@elsewhere.example")
    invalid(test.api.post(SENDS, body), "invalid_from_address_domain", field="from_address")


def test_an_account_of_the_name_is_no_test_account(sends: SendsApi) -> None:
    live = sends.tenant
    with live.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == live.id).values(name=unique("other")))
        moment = transaction.get_one(Account, live.id).creation_time
        name = transaction.get_one(Account, live.id).name
        transaction.add(Account(name=f"{name} (test)", creation_time=moment, last_modified_time=moment))
    with pytest.raises(ServiceError, match="conflict"), live.services.database.write() as transaction:
        refreshed_test_account(transaction, transaction.get_one(Account, live.id))


def test_captured_messages_are_kept_for_the_retention(sends: SendsApi, test: Tenant) -> None:
    SendsApi(test).send(sends.email())
    drain(test.services)
    services = test.services
    sweeps.clean(services)
    assert len(captured(test)) == 1
    with services.database.write() as transaction:
        old = captured(test)[0].captured_time.replace(year=2020)
        transaction.execute(update(CapturedMessage).values(captured_time=old))
    sweeps.clean(services)
    assert captured(test) == []
