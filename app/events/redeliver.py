"""Sending events again: those of one delivery, or all since a time (docs/webhooks.md#deliveries)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import orjson
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.audit.values import host_of
from app.clock import now
from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookAttempt
from app.db.models.webhooks import UNCHECKED_BAR
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.events.outbox import Payload, record_for_webhooks, trial_event
from app.ids import id_in


def find_delivery(session: Session, account_id: int, delivery_or_batch: str) -> WebhookAttempt:
    """The account's delivery with that id; else the latest one of that batch. Raises `ServiceError`
    (`invalid_id`)."""
    delivery_id = id_in(delivery_or_batch)
    named = WebhookAttempt.batch_id == delivery_or_batch if delivery_id is None else WebhookAttempt.id == delivery_id
    deliveries = select(WebhookAttempt).where(WebhookAttempt.account_id == account_id, named)
    delivery = session.scalars(deliveries.order_by(WebhookAttempt.id.desc()).limit(1)).first()
    if delivery is None:
        raise ServiceError("invalid_id", field="delivery", detail=f"the account has no delivery {delivery_or_batch!r}")
    return delivery


def payloads_of(session: Session, delivery: WebhookAttempt) -> Sequence[str]:
    """The events of the delivery that are still kept, as they were sent, in their order."""
    if delivery.after_event is None or delivery.last_event is None:
        return []
    webhook_payloads = select(Event.payload).where(Event.webhook_id == delivery.webhook_id)
    between = webhook_payloads.where(Event.id > delivery.after_event, Event.id <= delivery.last_event)
    return session.scalars(between.order_by(Event.webhook_id, Event.id)).all()


def events_of(session: Session, delivery: WebhookAttempt) -> Sequence[Payload]:
    """The events of the delivery that are still kept, in their order."""
    return [orjson.loads(text) for text in payloads_of(session, delivery)]


def redeliver(transaction: Transaction, delivery: WebhookAttempt) -> int:
    """Writes the events of the delivery again, for its webhook alone; returns how many.

    Raises `ServiceError` (`conflict`) if they are not all kept any more.
    """
    events = events_of(transaction, delivery)
    if len(events) != delivery.events:
        sending = f"`{COMMAND_LINE} webhooks replay` sends the kept events"
        detail = f"only {len(events)} of its {delivery.events} events are still kept; {sending}"
        raise ServiceError("conflict", field="delivery", detail=detail)
    record_for_webhooks(transaction, delivery.account_id, {delivery.webhook_id: events})
    counts = {"events": len(events)}
    record(transaction, Act("webhook.redelivered", delivery.account_id, delivery.webhook_id, counts=counts))
    return len(events)


def send_test(transaction: Transaction, webhook: Webhook) -> None:
    """Writes a test event for the webhook alone. Raises `ServiceError` (`conflict`) for one that was refused."""
    if webhook.barred not in (None, UNCHECKED_BAR):
        detail = f"the webhook gets no events, because it was refused: it {webhook.barred}"
        raise ServiceError("conflict", field="webhook", detail=detail)
    event = trial_event(webhook_id=webhook.id, moment=now())
    record_for_webhooks(transaction, webhook.account_id, {webhook.id: [event]})
    record(transaction, Act("webhook.tested", webhook.account_id, webhook.id, host_of(webhook.url)))


def replay(transaction: Transaction, webhook: Webhook, most: int) -> int:
    """Makes the last events before the position wait again, `most` of them at most; returns how many.

    The batch in flight ends: its events are sent again, after these and under another id.
    """
    webhook = _lock(transaction, webhook)
    done = select(Event.id).where(Event.webhook_id == webhook.id, Event.id <= webhook.position)
    ids = transaction.scalars(done.order_by(Event.webhook_id.desc(), Event.id.desc()).limit(most)).all()
    if ids:
        _move_back(transaction, webhook, ids[-1] - 1, len(ids))
    return len(ids)


def replay_since(transaction: Transaction, webhook: Webhook, moment: datetime) -> int:
    """Makes the events wait again from the first one on that the webhook was sent since the moment, as its log of
    attempts says; returns how many.

    Raises `ServiceError` (`conflict`) if that request was logged without its events, before revision 0030.
    """
    webhook = _lock(transaction, webhook)
    attempts = WebhookAttempt.webhook_id == webhook.id, WebhookAttempt.time >= moment
    since = select(WebhookAttempt.after_event).where(*attempts).order_by(WebhookAttempt.time).limit(1)
    for first in transaction.scalars(since):
        if first is None:
            detail = "the log of that time does not say which events were sent; give a later time, or --last"
            raise ServiceError("conflict", field="since", detail=detail)
        return _replay_after(transaction, webhook, first)
    return 0


def _replay_after(transaction: Transaction, webhook: Webhook, first: int) -> int:
    done = Event.webhook_id == webhook.id, Event.id > first, Event.id <= webhook.position
    waiting = transaction.scalars(select(func.count()).select_from(Event).where(*done)).one()
    if waiting:
        _move_back(transaction, webhook, first, waiting)
    return waiting


def _lock(transaction: Transaction, webhook: Webhook) -> Webhook:
    locked = select(Webhook).where(Webhook.account_id == webhook.account_id, Webhook.id == webhook.id)
    locked = locked.with_for_update(key_share=True).execution_options(populate_existing=True)
    return transaction.scalars(locked).one()


def _move_back(transaction: Transaction, webhook: Webhook, position: int, events: int) -> None:
    webhook.position = position
    webhook.batch_id = webhook.batch_end = webhook.first_failed_time = None
    transaction.flush()
    counts = {"events": events}
    record(transaction, Act("webhook.replayed", webhook.account_id, webhook.id, host_of(webhook.url), counts=counts))
