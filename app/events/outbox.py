"""The outbox: events are rows of the transaction that makes the change, so neither exists without the other. Their
payloads are the objects that a webhook receives, with their keys in the documented order (docs/webhooks.md#events).

No worker is woken from here. Batches of a webhook are seconds apart (docs/webhooks.md#batches), so the scheduler's look
for due webhooks, twice a second, is soon enough; and code that only writes rows needs neither Redis nor the process's
services.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import or_, select

from app.clock import timestamp
from app.db.bulk import insert_rows
from app.db.commit_order import mark_writer
from app.db.database import Transaction
from app.db.models import Account, Event, EventRotation, Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.errors import ServiceError
from app.ids import shown_id

Payload = dict[str, Any]


def contact_event(event: str, *, contact_id: int, list_id: int, moment: datetime) -> Payload:
    """`created`, `updated` or `deleted`, whatever caused it."""
    return {
        "object": "contact",
        "event": event,
        "id": contact_id,
        "list_id": shown_id(list_id),
        "timestamp": timestamp(moment),
    }


def recipient_event(
    event: str,
    *,
    recipient_id: int,
    uuid: str,
    group_id: int,
    group_name: str,
    message_id: int | None,
    message_type: str,
    list_id: int | None,
    contact_id: int | None,
    email: str | None,
    mobile: str | None,
    moment: datetime,
    automation_id: int | None = None,
    step_id: int | None = None,
    **extra: Any,
) -> Payload:
    """An outcome of a recipient. `extra` has tags and metadata, and the fields of this kind of event, such as
    `fail_reason`.

    Fields that do not apply are left out rather than null. A group is the report of its sends, so `report_id` repeats
    its id; what the step of an automation sends has no group, and the step is its report (docs/webhooks.md#events).
    """
    is_group_send = step_id is None
    fields: Payload = {
        "object": "recipient",
        "event": event,
        "id": recipient_id,
        "timestamp": timestamp(moment),
        "automation_id": automation_id,
        "step_id": step_id,
        "uuid": uuid,
        "group_id": group_id if is_group_send else None,
        "group_name": group_name if is_group_send else None,
        "report_id": group_id,
        "message_id": shown_id(message_id),
        "message_type": message_type,
        "list_id": shown_id(list_id),
        "contact_id": contact_id,
        "email": email,
        "mobile": mobile,
        **extra,
    }
    return {name: value for name, value in fields.items() if value is not None}


def called_event(*, automation_id: int, step_id: int, contact_id: int, list_id: int, moment: datetime) -> Payload:
    """`called`: a step of an automation reports that a contact came to it (docs/webhooks.md#events)."""
    return {
        "object": "automation",
        "event": "called",
        "automation_id": automation_id,
        "step_id": step_id,
        "contact_id": contact_id,
        "list_id": shown_id(list_id),
        "timestamp": timestamp(moment),
    }


def trial_event(*, webhook_id: int, moment: datetime) -> Payload:
    """`test`: an operator asks whether the webhook works (docs/webhooks.md#deliveries)."""
    return {"object": "webhook", "event": "test", "id": webhook_id, "timestamp": timestamp(moment)}


def failing_event(*, webhook_id: int, url: str, since: datetime, moment: datetime) -> Payload:
    """`failing`: another webhook of the account has failed for a day (docs/webhooks.md#outages)."""
    return {
        "object": "webhook",
        "event": "failing",
        "id": webhook_id,
        "url": url,
        "failing_since": timestamp(since),
        "timestamp": timestamp(moment),
    }


def reply_event(
    message: Payload | None, contact: tuple[int, int] | None, *, mobile: str, body_text: str, moment: datetime
) -> Payload:
    """`received`: a reply (docs/webhooks.md#events).

    `message` is the recipient event of the message that it answers, whose common fields it copies; None if nothing was
    sent to that mobile. `contact` is the list and the contact that wrote it, if the message does not name them: without
    a message the contact's id is that of the event, too.
    """
    common = message or {"message_type": "sms", "mobile": mobile}
    if contact is not None:
        list_id, contact_id = contact
        common = {"id": contact_id, **common, "list_id": shown_id(list_id), "contact_id": contact_id}
    event_fields = {"object": "sms", "event": "received", "timestamp": timestamp(moment), "body_text": body_text}
    return {"object": "sms", "event": "received", **common, **event_fields}


# Which events a webhook receives: all, or those of some kinds and lists (docs/webhooks.md#choosing-events). Pure.

EVENTS_BY_OBJECT = {
    "contact": ("created", "updated", "deleted"),
    "recipient": ("sent", "bounced", "failed", "opened", "clicked", "acknowledged"),
    "sms": ("received",),
    "webhook": ("failing",),
}
"""Object -> its events, as they may be chosen. Events that name their webhook themselves are not chosen."""
FAILING_EVENT = "webhook.failing"
"""The event of a failing webhook. Only webhooks that name it receive it: it is about the service, and no event of the
API."""
EVENT_NAMES = tuple(f"{object_}.{event}" for object_, events in EVENTS_BY_OBJECT.items() for event in events)


class Choice(NamedTuple):
    """None means all but those of the object `webhook`. An event without a list is of none, so a choice of lists leaves
    it out."""

    events: Sequence[str] | None = None
    lists: Sequence[int] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.events is None and self.lists is None

    def accepts(self, payload: Payload) -> bool:
        """Whether the webhook receives the event."""
        if self.lists is not None and payload.get("list_id") not in self.lists:
            return False
        return self.events is None or f"{payload['object']}.{payload['event']}" in self.events


def event_names(words: Iterable[str]) -> list[str]:
    """The names of the events that these words name, in their order. An object stands for all of its events.

    Raises `ServiceError` (`invalid_string`) for any other word.
    """
    chosen: set[str] = set()
    for word in words:
        matches = [name for name in EVENT_NAMES if word in (name, name.partition(".")[0])]
        if not matches:
            available = ", ".join((*EVENTS_BY_OBJECT, *EVENT_NAMES))
            raise ServiceError(
                "invalid_string", field="events", detail=f"there is no event {word!r}; known: {available}"
            )
        chosen.update(matches)
    return [name for name in EVENT_NAMES if name in chosen]


TEST_MARK = {"test": True}
"""What events of a test account carry besides (docs/testing.md#events)."""


def record(transaction: Transaction, account_id: int, payloads: Sequence[Payload]) -> None:
    """Writes the events, in their order, for every webhook that the account has now, but for those that were
    refused (docs/webhooks.md)."""
    record_many(transaction, {account_id: payloads})


def record_many(transaction: Transaction, payloads_by_account: Mapping[int, Iterable[Payload]]) -> None:
    """Writes the events of several accounts as `record` does those of one; one select and one insert in all.

    The payloads of an account without webhooks are not read.
    """
    accounts = [account_id for account_id, payloads in payloads_by_account.items() if payloads]
    if not accounts:
        return
    rows: list[dict[str, Any]] = []
    slot, webhooks, tests = _mark_and_find_webhooks(transaction, accounts)
    for account_id, choices in webhooks.items():
        mark = TEST_MARK if account_id in tests else {}
        events = [(payload, _text(payload, mark)) for payload in payloads_by_account[account_id]]
        for webhook_id, choice in choices.items():
            rows += [
                {"account_id": account_id, "webhook_id": webhook_id, "payload": text}
                for payload, text in events
                if choice.is_all or choice.accepts(payload)
            ]
    insert_rows(transaction, Event, rows, {"slot": slot})


def record_for_webhooks(
    transaction: Transaction, account_id: int, payloads: Mapping[int, Sequence[Payload]]
) -> Collection[int]:
    """Writes events for single webhooks of an account, by their ids, whatever they chose; returns those that it
    has."""
    slot, webhooks, tests = _mark_and_find_webhooks(transaction, [account_id])
    mark = TEST_MARK if account_id in tests else {}
    webhook_ids = payloads.keys() & webhooks.get(account_id, {}).keys()
    rows = [
        {"account_id": account_id, "webhook_id": webhook_id, "payload": _text(payload, mark)}
        for webhook_id in sorted(webhook_ids)
        for payload in payloads[webhook_id]
    ]
    insert_rows(transaction, Event, rows, {"slot": slot})
    return webhook_ids


def _text(payload: Payload, mark: Payload) -> str:
    return orjson.dumps({**payload, **mark} if mark else payload).decode()


def _mark_and_find_webhooks(
    transaction: Transaction, account_ids: Sequence[int]
) -> tuple[int, dict[int, dict[int, Choice]], set[int]]:
    """The slot that events are written to, the webhooks of each account that has any, with what they chose, and which
    of these accounts are test accounts.

    Marks the transaction as one that writes events of these accounts, which must be done before ids are drawn for them
    (app/db/commit_order.py). A webhook may be deleted meanwhile: its events are not read then.
    """
    slot = select(EventRotation.slot).scalar_subquery()
    chosen = Webhook.chosen_events, Webhook.chosen_lists
    is_test = select(Account.test_of.is_not(None)).where(Account.id == Webhook.account_id).scalar_subquery()
    statement = select(Webhook.account_id, Webhook.id, *chosen, slot, is_test, mark_writer(Webhook.account_id))
    # What happens while a webhook is checked is sent to it once it is accepted.
    not_refused = or_(Webhook.barred.is_(None), Webhook.barred == UNCHECKED_BAR)
    account_webhooks = statement.where(Webhook.account_id.in_(account_ids), not_refused)
    rows = transaction.execute(account_webhooks.order_by(Webhook.id)).all()
    webhooks: dict[int, dict[int, Choice]] = {}
    for account_id, webhook_id, events, lists, *_ in rows:
        webhooks.setdefault(account_id, {})[webhook_id] = Choice(events, lists)
    return (rows[0][4] if rows else 0), webhooks, {row[0] for row in rows if row[5]}
