"""The events of one delivery, and sending them again (docs/webhooks.md#deliveries).

The log of attempts has no bodies: a delivery is an interval of the webhook's events, which are there as long as events
are kept. Sending it again is a copy of them behind those that wait, so nothing else is sent twice. Both that and a test
event are recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.audit.values import host_of
from app.clock import now
from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookAttempt
from app.db.models.webhooks import UNCHECKED
from app.distribution import COMMAND_LINE
from app.errors import ServiceError
from app.events.outbox import record_for_webhooks
from app.events.payloads import Payload, trial_event
from app.ids import id_in


def find_delivery(session: Session, account_id: int, wanted: str) -> WebhookAttempt:
    """The account's delivery with that id; else the latest one of that batch. Raises `ServiceError`
    (`invalid_id`)."""
    delivery_id = id_in(wanted)
    named = WebhookAttempt.batch_id == wanted if delivery_id is None else WebhookAttempt.id == delivery_id
    found = select(WebhookAttempt).where(WebhookAttempt.account_id == account_id, named)
    delivery = session.scalars(found.order_by(WebhookAttempt.id.desc()).limit(1)).first()
    if delivery is None:
        raise ServiceError("invalid_id", field="delivery", detail=f"the account has no delivery {wanted!r}")
    return delivery


def payloads_of(session: Session, delivery: WebhookAttempt) -> Sequence[str]:
    """The events of the delivery that are still kept, as they were sent, in their order."""
    if delivery.after_event is None or delivery.last_event is None:
        return []
    of_webhook = select(Event.payload).where(Event.webhook_id == delivery.webhook_id)
    between = of_webhook.where(Event.id > delivery.after_event, Event.id <= delivery.last_event)
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
        sending = f"`{COMMAND_LINE} webhooks replay` sends what there is"
        detail = f"of its {delivery.events} events {len(events)} are still kept; {sending}"
        raise ServiceError("conflict", field="delivery", detail=detail)
    record_for_webhooks(transaction, delivery.account_id, {delivery.webhook_id: events})
    counts = {"events": len(events)}
    record(transaction, Act("webhook.redelivered", delivery.account_id, delivery.webhook_id, counts=counts))
    return len(events)


def send_test(transaction: Transaction, webhook: Webhook) -> None:
    """Writes a test event for the webhook alone. Raises `ServiceError` (`conflict`) for one that was refused."""
    if webhook.barred not in (None, UNCHECKED):
        detail = f"nothing is sent to the webhook, because it was refused: it {webhook.barred}"
        raise ServiceError("conflict", field="webhook", detail=detail)
    event = trial_event(webhook_id=webhook.id, moment=now())
    record_for_webhooks(transaction, webhook.account_id, {webhook.id: [event]})
    record(transaction, Act("webhook.tested", webhook.account_id, webhook.id, host_of(webhook.url)))
