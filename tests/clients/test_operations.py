"""Every operation of the library with the running service (docs/clients.md#python)."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, date, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from transactional_messaging import (
    Attachment,
    AuthenticationFailed,
    Client,
    Conflict,
    InvalidRequest,
    NotFound,
    ValidationFailed,
    WaitedTooLong,
    above,
    any_of,
    below,
    between,
    is_not,
)

from tests.clients.conftest import LIMITED, Service


def new_email(name: str = "ann") -> str:
    return f"{name}-{uuid.uuid4().hex[:12]}@example.com"


def test_the_root_tells_the_scopes_of_a_key(client: Client, service: Service) -> None:
    assert "send.email" in client.root.get().scopes
    with pytest.raises(AuthenticationFailed) as caught:
        service.client("tms_unknown").root.get()
    assert (caught.value.status, caught.value.code) == (401, "api_key_invalid")


def test_contacts_are_created_changed_found_and_deleted(client: Client, service: Service) -> None:
    list_id, email = service.list_id, new_email()
    before = datetime.now(UTC).replace(microsecond=0)
    contact = client.contacts.create(list_id, {"email": email, "first_name": "Ann", "born": date(1985, 12, 10)})
    assert (contact.email, contact["first_name"], contact["born"]) == (email, "Ann", "1985-12-10")
    assert before <= contact.creation_time <= datetime.now(UTC)
    assert contact.subscribed.email
    assert not contact.blocked.email
    changed = client.contacts.update(list_id, contact.id, {"double_opt_in": True, "subscribed": {"email": False}})
    assert (changed.double_opt_in, changed.subscribed.email) == (True, False)
    assert client.contacts.get(list_id, contact.id) == changed
    client.contacts.update_many(list_id, [{"id": contact.id, "loans": 3}])
    contacts = client.contacts.list(list_id, email=email, loans=between(3, 4), filters={"subscribed.email": False})
    assert [contact.id for contact in contacts] == [contact.id]
    client.contacts.delete(list_id, contact.id)
    with pytest.raises(NotFound):
        client.contacts.get(list_id, contact.id)


def test_iterating_reads_all_pages_and_every_condition_finds_what_it_says(client: Client, service: Service) -> None:
    run, list_id = uuid.uuid4().hex[:8], service.list_id
    names = [f"page, {run}-{number}" for number in range(5)]
    client.contacts.create_many(
        list_id, ({"email": new_email(), "first_name": name, "loans": loans} for loans, name in enumerate(names))
    )
    mine = any_of(*names)
    contacts = client.contacts.list(list_id, first_name=mine, limit=2)
    assert sorted(contact["first_name"] for contact in contacts) == names
    assert [len(page.items) for page in contacts.pages()] == [2, 2, 1]
    assert contacts.count() == 5
    newest = contacts.first()
    assert newest is not None
    assert newest["first_name"] in names
    conditions = {
        above(3): 1,
        below(1): 1,
        between(1, 3): 3,
        any_of(0, between(3, 9)): 3,
        is_not(2): 4,
        is_not(None): 5,
    }
    assert {
        condition: client.contacts.list(list_id, first_name=mine, loans=condition).count() for condition in conditions
    } == conditions
    since = datetime.now(UTC) - timedelta(hours=1)
    assert client.contacts.list(list_id, first_name=mine, creation_time=above(since), born=None).count() == 5
    short = client.contacts.list(list_id, first_name=mine, fields=["id"], time_zone="Australia/Brisbane")
    with pytest.raises(AttributeError, match="fields"):
        assert [contact.email for contact in short]
    client.contacts.delete_many(list_id, [contact.id for contact in short])
    assert contacts.count() == 0


def test_errors_say_where_they_are(client: Client, service: Service) -> None:
    contacts: list[dict[str, Any]] = [{"email": new_email()}, {"email": "nobody"}, {"email": "neither", "size": 3}]
    with pytest.raises(ValidationFailed) as caught:
        client.contacts.create_many(service.list_id, contacts)
    error = caught.value
    assert (error.code, error.collection, error.index, error.field) == ("invalid_email_address", "contacts", 1, "email")
    assert [(detail.code, detail.place) for detail in error.errors] == [
        ("invalid_email_address", "contacts[1].email"),
        ("invalid_email_address", "contacts[2].email"),
        ("unexpected_field", "contacts[2].size"),
    ]
    assert error.request_id is not None
    assert "contacts[1].email" in str(error)
    assert error.request_id in str(error)
    with pytest.raises(InvalidRequest) as refused:
        client.contacts.list(service.list_id, shoe_size=43).count()
    assert (refused.value.code, refused.value.field) == ("parameter_not_supported", "shoe_size")
    email = new_email()
    there = client.contacts.create(service.list_id, {"email": email})
    with pytest.raises(Conflict) as taken:
        client.contacts.create(service.list_id, {"email": email})
    assert taken.value.fields == {"email": {"contact_id": there.id}}


def test_an_idempotency_key_does_the_work_once(client: Client, service: Service) -> None:
    key, email = uuid.uuid4().hex, new_email()
    first, again = (client.contacts.create(service.list_id, {"email": email}, idempotency_key=key) for _ in range(2))
    assert first == again
    with pytest.raises(Conflict):
        client.contacts.create(service.list_id, {"email": new_email()}, idempotency_key=key)


def test_a_send_arrives_with_attachments_of_every_kind(client: Client, service: Service, tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_bytes(b"the terms")
    named = io.BytesIO(b"%PDF-1.4")
    with path.open("rb") as opened:
        send = client.sends.create(
            type="email",
            list_id=service.list_id,
            message_id=service.message_id,
            group_name="Reminders",
            recipients=[
                {"email": new_email(), "title": "Emma", "attachments": [path, Attachment.from_file(named, "a.pdf")]},
                {"email": new_email(), "title": "Persuasion", "attachments": [Attachment.from_file(opened, "b.txt")]},
            ],
            attachments=[Attachment.from_bytes(b"\x00\x01", "data.bin"), Attachment.from_bytes(b"x,y\n", "rows.csv")],
        )
    for uuid_, title, own_files in zip(
        send.uuids, ("Emma", "Persuasion"), (["terms.txt", "a.pdf"], ["b.txt"]), strict=True
    ):
        assert client.sends.wait(uuid_, timeout=180).state == "delivered"
        mail = message_from_bytes((service.launched.data / "mail" / f"{uuid_}.eml").read_bytes(), policy=policy.default)
        body = mail.get_body(("plain",))
        assert body is not None
        assert f"Return {title}" in body.get_content()
        assert {part.get_filename() for part in mail.iter_attachments()} == {"data.bin", "rows.csv", *own_files}
    assert client.groups.get(send.group_id).name == "Reminders"


def test_what_became_of_a_message_is_found_by_its_address_and_its_uuid(client: Client, service: Service) -> None:
    email = new_email()
    common: dict[str, Any] = {"list_id": service.list_id, "message_id": service.message_id}
    (uuid_,) = client.sends.create(
        type="email", **common, group_name="Found", recipients=[{"email": email, "title": "Emma"}]
    ).uuids
    recipient = client.sends.wait(uuid_, timeout=180)
    assert (
        [step.step for step in client.sends.timeline(uuid_)] == [step.step for step in recipient.timeline] == ["sent"]
    )
    assert recipient.creation_time <= recipient.timeline[0].time
    assert [send_row.uuid for send_row in client.sends.list(email=email, state=any_of("sent", "delivered"))] == [uuid_]
    sent = client.messages.list_sent_contacts(service.message_id, contact_id=recipient.contact_id).first()
    assert sent is not None
    assert (sent.report_id, sent.open_type) == (recipient.group_id, "not_opened")


def test_a_dry_run_sends_nothing(client: Client, service: Service) -> None:
    email = new_email()
    planned = client.sends.dry_run(
        type="email",
        list_id=service.list_id,
        message_id=service.message_id,
        group_name="Never",
        recipients=[{"email": email, "first_name": "Ann"}],
    )
    (forecast,) = planned.recipients
    assert (forecast.outcome, forecast.subject, forecast.creates_contact) == ("send", "Hi Ann", True)
    assert [wildcard.name for wildcard in forecast.wildcards_without_value] == ["title"]
    assert client.groups.list(name="Never").count() == 0


def test_a_text_message_is_sent_without_a_list(client: Client) -> None:
    send = client.sends.create(
        type="sms",
        group_name="Codes",
        unsubscribe_type="none",
        from_address="LIBRARY",
        body_text="Your code is %%code%%",
        recipients=[{"mobile": "61491570006", "code": 4711}],
    )
    assert client.sends.wait(send.uuids[0], timeout=180).state == "sent"
    assert [group.type for group in client.groups.list(id=send.group_id)] == ["sms"]


def test_lists_and_messages_are_read_with_what_they_embed(client: Client, service: Service) -> None:
    (readers,) = client.lists.list(name="Readers", expand="contacts")
    assert readers == client.lists.get(service.list_id, expand="contacts")
    client.contacts.create(service.list_id, {"email": new_email()})
    assert {list_.list_id for list_ in client.lists.get(service.list_id, expand="contacts").contacts} == {readers.id}
    (reminder,) = client.messages.list(type="email", expand="content")
    assert reminder.content is not None
    assert reminder.content.body_text == "Return %%title%%"
    content = client.messages.get_content(reminder.id, expand="message")
    assert content.message == client.messages.get(reminder.id)
    assert client.messages.get(reminder.id).content is None


def test_automations_are_paused_resumed_and_checked(client: Client, service: Service) -> None:
    (automation,) = client.automations.list()
    assert client.automations.get(automation.id).steps[0].kind == "send"
    assert client.automations.pause(automation.id).state == "paused"
    assert client.automations.resume(automation.id, held="skip").state == "active"
    assert list(client.automations.list_runs(automation.id, state="waiting")) == []
    with pytest.raises(NotFound):
        client.automations.get_run(automation.id, 1)
    definition = {"name": "Other", "kind": "standard", "list": "Readers", "message": "Reminder"}
    definition["trigger"] = "When a Contact is created from the REST API"
    assert client.automations.validate(definition)["again"] == "always"
    with pytest.raises(ValidationFailed):
        client.automations.validate({**definition, "list": "Nobody"})


def test_a_key_that_is_no_test_key_has_an_empty_inbox(client: Client) -> None:
    assert list(client.inbox.list(address="ann@example.com")) == []
    with pytest.raises(NotFound):
        client.inbox.get(1)


def test_what_a_test_key_sends_is_found_in_its_inbox(service: Service) -> None:
    made = service.flask("keys", "create", "ci", "--level", "standard", "--test", "--account", "Library")
    with service.client(made["token"]) as client:
        (readers,) = client.lists.list(name="Readers")
        email = new_email()
        (uuid_,) = client.sends.create(
            type="email",
            list_id=readers.id,
            group_name="Captured",
            subject="Hi",
            body_text="Hello",
            recipients=[{"email": email}],
        ).uuids
        message = client.inbox.wait(email, timeout=180)
        assert (message.uuid, message.subject, message.address) == (uuid_, "Hi", email)
        assert "Hello" in message.content
        with pytest.raises(WaitedTooLong):
            client.inbox.wait(email, after=message.id, timeout=0)


def test_requests_beyond_the_rate_limit_are_repeated_when_the_service_says(service: Service) -> None:
    with service.client(LIMITED) as client:
        assert [list(client.lists.list()) for _ in range(4)] == [[]] * 4
