"""Replay: events that a webhook has accepted are delivered again, as far back as they are kept.

Delivery deletes nothing (docs/decisions/018-events-in-rotating-tables.md), so the webhook's position only has to move
back. That is recorded in the audit log.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select

from app.audit.record import Act, record
from app.audit.values import host_of
from app.db.database import Transaction
from app.db.models import Event, Webhook, WebhookAttempt
from app.errors import ServiceError


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
    """The same from the first event on that the webhook was sent since the moment, as its log of attempts says.

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
