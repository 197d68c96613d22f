"""What a webhook receives, its log of deliveries, and sending events again (docs/webhooks.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select

from app.clock import now, timestamp
from app.db.models import Event, Webhook
from app.errors import ServiceError
from app.events.dispatch import WebhookClient, WebhookDispatcher
from app.events.outbox import contact_event, recipient_event, record, record_for_webhooks, reply_event
from app.events.redeliver import events_of, find_delivery, redeliver, replay_since, send_test
from app.events.webhooks import choose_events
from app.infrastructure.metrics import own_counts
from app.services import Services
from tests.jobs.conftest import AddHook, Hook
from tests.support.webhook_receiver import Receiver, Reply

URL = "http://127.0.0.1:9/one"
OTHER = "http://127.0.0.1:9/two"


@pytest.fixture
def dispatcher() -> Iterator[WebhookDispatcher]:
    """A dispatcher that no other test uses."""
    with closing(WebhookClient()) as client:
        yield WebhookDispatcher(client)


def choose(hook: Hook, events: list[str] | None, lists: list[int] | None) -> None:
    with hook.services.database.write() as transaction:
        choose_events(transaction, transaction.get_one(Webhook, hook.id), events, lists)


def waiting(hook: Hook) -> list[tuple[str, str]]:
    """Object and event of what waits for the webhook."""
    with hook.services.database.read() as session:
        texts = session.scalars(select(Event.payload).where(Event.webhook_id == hook.id).order_by(Event.id))
        return [(event["object"], event["event"]) for event in map(orjson.loads, texts)]


def outcome(event: str, list_id: int | None) -> dict[str, Any]:
    """A recipient event."""
    ids = {"recipient_id": 1, "group_id": 1, "message_id": None, "contact_id": None}
    texts = {"uuid": "u", "group_name": "g", "message_type": "email", "email": "a@example.com", "mobile": None}
    return recipient_event(event, **ids, **texts, list_id=list_id, moment=now())  # type: ignore[arg-type]


def happen(services: Services, account_id: int) -> None:
    """One event of each kind in list 1, some in list 2, and a reply without a list."""
    with services.database.write() as transaction:
        imported = [contact_event("created", contact_id=n, list_id=1, moment=now()) for n in range(3)]
        reply = reply_event(None, None, mobile="61411111111", body_text="STOP", moment=now())
        record(
            transaction,
            account_id,
            [*imported, outcome("sent", 1), outcome("bounced", 2), outcome("sent", None), reply],
        )


@pytest.mark.parametrize(
    ("events", "lists", "expected"),
    [
        (["recipient.sent", "recipient.bounced"], None, ["sent", "bounced", "sent"]),
        (["recipient"], None, ["sent", "bounced", "sent"]),
        (["sms", "recipient.bounced"], None, ["bounced", "received"]),
        (None, [1], ["created", "created", "created", "sent"]),
        (["recipient"], [2], ["bounced"]),
        (["contact.deleted"], None, []),
        (None, None, ["created", "created", "created", "sent", "bounced", "sent", "received"]),
    ],
)
def test_a_webhook_receives_what_it_chose(
    services: Services, add_hook: AddHook, events: list[str] | None, lists: list[int] | None, expected: list[str]
) -> None:
    """A bulk import does not stand before `sent` and `bounced`; another webhook still receives all."""
    hook, other = add_hook(URL), add_hook(OTHER)
    choose(hook, events, lists)
    happen(services, hook.account_id)
    assert [event for _, event in waiting(hook)] == expected
    assert len(waiting(other)) == 7


def test_what_names_its_webhook_comes_whatever_it_chose(services: Services, account_id: int, add_hook: AddHook) -> None:
    hook = add_hook(URL)
    choose(hook, ["contact.deleted"], [9])
    with services.database.write() as transaction:
        record_for_webhooks(transaction, account_id, {hook.id: [outcome("sent", 1)]})
    assert waiting(hook) == [("recipient", "sent")]


def test_a_wrong_choice_is_refused(add_hook: AddHook) -> None:
    hook = add_hook(URL)
    wrong: list[tuple[list[str] | None, list[int] | None, str]] = [
        (["recipient.flown"], None, "invalid_string"),
        ([], None, "not_empty"),
        (None, [], "not_empty"),
    ]
    for events, lists, code in wrong:
        with pytest.raises(ServiceError) as refused:
            choose(hook, events, lists)
        assert refused.value.errors[0].code == code


def test_the_log_has_the_events_and_the_first_4_kib_of_the_answer(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    """The log has the events of a retry as well. A delivery can be sent again as it was, behind what waits."""
    with Receiver(Reply(500, body=b"a\nb" * 4000), 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
        hook.set(due_time=now())
        dispatcher.run(services)
        first, second = hook.attempts
        assert first.answer == (b"a\nb" * 4000)[:4096].decode()
        assert second.answer is None
        with services.database.write() as transaction:
            for attempt in (first, second):
                delivery = find_delivery(transaction, hook.account_id, str(attempt.id))
                assert events_of(transaction, delivery) == [{"n": 1}, {"n": 2}]
            assert find_delivery(transaction, hook.account_id, second.batch_id).id == second.id
            assert redeliver(transaction, find_delivery(transaction, hook.account_id, str(second.id))) == 2
        assert hook.waiting == 2
        hook.set(due_time=now())
        dispatcher.run(services)
    assert [[event["n"] for event in hit.events] for hit in receiver.hits] == [[1, 2], [1, 2], [1, 2]]
    assert hook.attempts[-1].batch_id != second.batch_id


def test_a_delivery_whose_events_are_gone_is_refused(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
    (attempt,) = hook.attempts
    with services.database.write() as transaction:
        transaction.execute(delete(Event).where(Event.webhook_id == hook.id, Event.payload == '{"n":1}'))
    with services.database.write() as transaction, pytest.raises(ServiceError) as refused:
        redeliver(transaction, find_delivery(transaction, hook.account_id, str(attempt.id)))
    assert refused.value.errors[0].code == "conflict"


def test_another_account_has_no_such_delivery(
    services: Services, other_id: int, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(services)
    with services.database.read() as session, pytest.raises(ServiceError):
        find_delivery(session, other_id, str(hook.attempts[0].id))


def test_a_test_event_is_delivered_signed(services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher) -> None:
    with Receiver(200) as receiver:
        hook = add_hook(receiver.url)
        choose(hook, ["contact"], None)
        with services.database.write() as transaction:
            send_test(transaction, transaction.get_one(Webhook, hook.id))
        dispatcher.run(services)
    (event,) = receiver.events
    assert (event["object"], event["event"], event["id"]) == ("webhook", "test", hook.id)


def test_a_replay_since_a_time_sends_what_was_sent_since(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
        between = now()
        hook.happen(3)
        hook.set(due_time=now())
        dispatcher.run(services)
        with services.database.write() as transaction:
            webhook = transaction.get_one(Webhook, hook.id)
            assert replay_since(transaction, webhook, now() + timedelta(minutes=1)) == 0
            assert replay_since(transaction, webhook, between) == 1
        hook.set(due_time=now())
        dispatcher.run(services)
    assert [[event["n"] for event in hit.events] for hit in receiver.hits] == [[1, 2], [3], [3]]


def test_an_outage_of_a_day_is_told_once_to_the_webhooks_that_ask_for_it(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    """The webhooks may have chosen any lists. The outage is counted once, and a success ends it."""
    with Receiver(500, 500, 500, 200) as receiver:
        hook, other, silent = add_hook(receiver.url), add_hook(OTHER), add_hook(f"{OTHER}/silent")
        for quiet in (other, silent):
            quiet.set(due_time=now() + timedelta(days=9))
        choose(other, ["contact.created", "webhook"], [5])
        choose(silent, ["contact"], None)
        with services.database.write() as transaction:
            record(transaction, hook.account_id, [outcome("sent", 1)])
        dispatcher.run(services)
        assert waiting(other) == []
        with_all = add_hook(f"{OTHER}/all")
        began, before = now() - timedelta(days=1, minutes=1), outages()
        for _ in range(2):
            hook.set(due_time=now(), failing_since=began)
            dispatcher.run(services)
        assert waiting(other) == [("webhook", "failing")]
        assert waiting(silent) == waiting(with_all) == []
        assert outages() == before + 1
        with services.database.read() as session:
            (text,) = session.scalars(select(Event.payload).where(Event.webhook_id == other.id))
        told = orjson.loads(text)
        assert (told["id"], told["url"], told["failing_since"]) == (hook.id, receiver.url, timestamp(began))
        hook.set(due_time=now())
        dispatcher.run(services)
    assert hook.row is not None
    assert (hook.row.failing_since, hook.row.outage_reported_time) == (None, None)


def outages() -> float:
    """How many this process has counted."""
    return sum(value for (name, _), value in own_counts().items() if name == "tms_webhook_outages_total")
