"""The fake answers as the service does (clients/python/README.md): the same calls with both, and what each says."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from transactional_messaging import ApiError, Client, Conflict, ServiceUnavailable, any_of, between
from transactional_messaging.resource import Resource
from transactional_messaging.testing import FakeService

from tests.clients.conftest import Service

FIELDS = ("First Name", "Born", "Loans")


@pytest.fixture
def fake() -> FakeService:
    return FakeService()


def outcome(call: Callable[[], Any]) -> Any:
    """What a call answers, without what differs from account to account: property names, or the errors."""
    try:
        answer = call()
    except ApiError as error:
        return type(error), [(detail.code, detail.place) for detail in error.errors]
    if isinstance(answer, Resource):
        return shape(dict(answer))
    return answer


def shape(value: Any) -> Any:
    """The names of properties, however deep; links apart, of which the fake has fewer."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if name != "_links"}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return None


def story(client: Client, list_id: int, message_id: int) -> dict[str, Any]:
    """Calls and their outcomes."""
    run = uuid.uuid4().hex
    email, other, group = f"ann-{run}@example.com", f"ben-{run}@example.com", f"Story {run}"
    contact = client.contacts.create(list_id, {"email": email, "first_name": run, "loans": 2})
    client.contacts.create_many(list_id, [{"email": other, "first_name": run, "loans": 5}])
    mail: dict[str, Any] = {"type": "email", "list_id": list_id, "message_id": message_id, "group_name": group}
    send_fields: dict[str, Any] = {"type": "email", "list_id": list_id, "recipients": [{"email": email}]}
    sent = client.sends.create(
        **mail, recipients=[{"email": email}, {"contact_id": contact.id}, {"contact_id": 1 << 60}]
    )
    labels: dict[str, Any] = {"tags": ["receipt"], "metadata": {"shop": "berlin", "order": "0"}}
    person_labels = {"metadata": {"order": run}}
    states = [client.sends.wait(send_uuid, timeout=180).state for send_uuid in sent.uuids]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    later = client.sends.create(**mail, recipients=[{"email": email}, {"email": other}], send_at=tomorrow)
    mine = client.contacts.list(list_id, first_name=run, limit=1)
    calls: dict[str, Callable[[], Any]] = {
        "contact": lambda: client.contacts.get(list_id, contact.id),
        "update": lambda: client.contacts.update(list_id, contact.id, {"double_opt_in": True}),
        "reset": lambda: client.contacts.update(list_id, contact.id, {"double_opt_in": False}),
        "pages": lambda: [page.items[0].email for page in mine.pages()] == [other, email],
        "count": mine.count,
        "range": lambda: client.contacts.list(list_id, first_name=run, loans=between(3, 9)).count(),
        "either": lambda: client.contacts.list(list_id, email=any_of(email, "nobody@example.com")).count(),
        "no filter": lambda: client.contacts.list(list_id, shoe_size=43).count(),
        "twin": lambda: client.contacts.create(list_id, {"email": email}),
        "no field": lambda: client.contacts.create_many(list_id, [{"email": f"a{other}"}, {"size": 1}]),
        "no id": lambda: client.contacts.update_many(list_id, [{"id": contact.id}, {"id": 1 << 60}]),
        "no list": lambda: client.contacts.get(1 << 60, 1),
        "list": lambda: client.lists.get(list_id),
        "message": lambda: client.messages.get(message_id),
        "content": lambda: client.messages.get_content(message_id),
        "states": lambda: states,
        "group": lambda: client.groups.get(sent.group_id),
        "counts": lambda: [client.groups.get(sent.group_id)[name] for name in ("sent", "failed_contacts", "delivered")],
        "recipient": lambda: client.sends.list(uuid=sent.uuids[0]).first(),
        "found": lambda: client.sends.list(email=email, state="delivered").count(),
        "nobody": lambda: client.sends.create(**mail, recipients=[]),
        "nowhere": lambda: client.sends.create(**mail, recipients=[{"first_name": "Ann"}, {"email": "no address"}]),
        "both": lambda: client.sends.create(**mail, recipients=[{"email": email, "contact_id": contact.id}]),
        "secrets of nobody": lambda: client.sends.create(**mail, recipients=[{"email": email}], secret_values=["code"]),
        "no content": lambda: client.sends.create(**send_fields, group_name=group, subject="Hi"),
        "no group": lambda: client.sends.create(**send_fields, subject="Hi", body_text="Hello", from_name="A"),
        "no subject": lambda: client.sends.create(**send_fields, group_name=group, body_text="Hello", from_name="A"),
        "no message": lambda: client.sends.create(**{**mail, "message_id": 1 << 60}, recipients=[{"email": email}]),
        "scheduled": lambda: client.sends.get(later.uuids[0]).state,
        "cancel": lambda: [client.sends.cancel(later.uuids[0]).reason for _ in range(2)],
        "cancel many": lambda: client.sends.cancel_many(later.uuids) == [later.uuids[1]],
        "cancel sent": lambda: client.sends.cancel_many(sent.uuids),
        "cancel by filter": lambda: client.sends.cancel_many(group_id=later.group_id, state="scheduled"),
        "cancel all": client.sends.cancel_many,
        "too late": lambda: client.sends.cancel(sent.uuids[0]),
        "dry run": lambda: {**client.sends.dry_run(**mail, recipients=[{"email": email}])}.keys() - {"_links"},
        "tagged": lambda: len(
            client.sends.create(**mail, **labels, recipients=[{"email": email, **person_labels}]).uuids
        ),
        "counts of a tag": lambda: client.tags.get("receipt").keys() - {"_links"},
        "counts of no tag": lambda: client.tags.get(f"a/{run}"),
        "by tag": lambda: client.sends.list(tag=any_of("receipt", "none")).first(),
        "by metadata": lambda: client.sends.list(filters={"metadata.order": run}).first(),
        "by other metadata": lambda: client.sends.list(filters={"metadata.order": "0"}).count(),
        "unknown": lambda: client.sends.get(str(uuid.uuid4())),
        "delete": lambda: client.contacts.delete_many(list_id, [contact.id, 1 << 60]),
        "gone": lambda: client.contacts.get(list_id, contact.id),
    }
    return {name: outcome(call) for name, call in calls.items()}


def test_it_answers_as_the_service_does(client: Client, service: Service, fake: FakeService) -> None:
    list_id = fake.add_list("Readers", FIELDS)
    message_id = fake.add_message("Reminder", subject="Hi", body_text="Return %%title%%", from_name="Library")
    assert story(fake.client(), list_id, message_id) == story(client, service.list_id, service.message_id)


def test_it_keeps_what_was_sent(fake: FakeService) -> None:
    list_id, client = fake.add_list("Readers", FIELDS), fake.client()
    file = {"type": "text/plain", "name": "a.txt", "content": "YQ=="}
    client.sends.create(
        type="email",
        list_id=list_id,
        group_name="Invoices",
        subject="Your invoice",
        body_text="Attached: %%number%%",
        recipients=[{"email": "ann@example.com", "number": "4711", "attachments": [file]}],
    )
    (message,) = fake.sent
    assert (message.address, message.subject, message.values) == ("ann@example.com", "Your invoice", {"number": "4711"})
    assert [(attachment.name, attachment.content) for attachment in message.attachments] == [("a.txt", b"a")]
    assert [contact.email for contact in client.contacts.list(list_id)] == ["ann@example.com"]
    fake.settle(message.uuid, "bounced", "mailbox full")
    group = client.groups.list(name="Invoices").first()
    assert group is not None
    assert (group.sent, group.delivered, group.bounced) == (1, 0, 1)
    assert client.sends.get(message.uuid).reason == "mailbox full"


def test_it_fails_as_told_and_counts_the_tries(fake: FakeService) -> None:
    client = fake.client()
    fake.fail(503, times=2, retry_after=9)
    assert list(client.lists.list()) == []
    assert len(fake.calls) == 3
    fake.fail(503, times=4)
    with pytest.raises(ServiceUnavailable):
        client.root.get()
    fake.fail(422, "account_owner_unverified")
    with pytest.raises(ApiError) as caught:
        client.sends.create(type="email", recipients=[])
    assert caught.value.code == "account_owner_unverified"


def test_it_does_a_repeated_request_once(fake: FakeService) -> None:
    client, list_id = fake.client(), fake.add_list("Readers")
    for _ in range(2):
        client.contacts.create(list_id, {"email": "ann@example.com"}, idempotency_key="signup-1")
    assert client.contacts.list(list_id).count() == 1
    with pytest.raises(Conflict):
        client.contacts.create(list_id, {"email": "ben@example.com"}, idempotency_key="signup-1")
