"""Webhooks that are held after a restore, because they had events waiting in the backup
(docs/restore.md#what-a-restore-holds).

A held webhook is sent nothing, what happens after the restore included: its events stay in their order. Releasing sends
all of them, those of the batch that was in flight under its old id; dropping passes those of the backup.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select, update
from sqlalchemy.orm import Session

from app.audit.record import Act, record
from app.audit.values import host_of
from app.db.commit_order import MAX_ID
from app.db.database import Transaction
from app.db.models import Event, EventRotation, Webhook, table_of
from app.events.batch_contents import oldest_waiting

IS_HELD = Webhook.held_to.is_not(None)


class HeldWebhook(NamedTuple):
    """A held webhook, and how many events of the backup wait for it."""

    id: int
    account_id: int
    url: str
    events: int


def hold_webhooks(connection: Connection, moment: datetime) -> int:
    """Holds every webhook that has events waiting, in the transaction that restores it; returns how many.

    No lease is valid any more. The time until a batch expires begins anew, and so does the time for which events are
    kept. `complete_to` is only valid in the database that it was read from.
    """
    webhooks, rotation = table_of(Webhook), table_of(EventRotation)
    fresh = {"lease_time": None, "worker": None, "first_failed_time": None, "complete_to": webhooks.c.position}
    connection.execute(update(webhooks).values(fresh))
    connection.execute(update(rotation).values(since_time=moment))
    newest_event = select(func.max(Event.id)).where(Event.webhook_id == webhooks.c.id).correlate(webhooks)
    last = newest_event.scalar_subquery()
    waiting = update(webhooks).where(last > webhooks.c.position).values(held_to=last)
    return connection.execute(waiting).rowcount


def held_webhooks(session: Session, account_id: int | None) -> list[HeldWebhook]:
    """The held webhooks, of the account or of all."""
    waiting = oldest_waiting(Webhook.id, Webhook.position, MAX_ID).where(Event.id <= Webhook.held_to)
    events = select(func.count()).select_from(waiting.correlate(Webhook).subquery()).scalar_subquery()
    statement = select(Webhook.id, Webhook.account_id, Webhook.url, events).where(IS_HELD).order_by(Webhook.id)
    if account_id is not None:
        statement = statement.where(Webhook.account_id == account_id)
    return [HeldWebhook._make(row) for row in session.execute(statement)]


def release_webhook(transaction: Transaction, webhook: HeldWebhook) -> bool:
    """Sends the events that have waited, and those behind them. Returns whether it was still held."""
    return _end_hold(transaction, webhook, "webhook.released", held_to=None)


def drop_events(transaction: Transaction, webhook: HeldWebhook) -> bool:
    """Passes the events of the backup, and counts them as dropped; what happened since the restore is sent. Returns
    whether it was still held."""
    values = {
        **{"position": Webhook.held_to, "held_to": None, "batch_id": None, "batch_end": None},
        "dropped_events": Webhook.dropped_events + webhook.events,
    }
    return _end_hold(transaction, webhook, "webhook.dropped", **values)


def _end_hold(transaction: Transaction, webhook: HeldWebhook, action: str, **values: Any) -> bool:
    webhook_filter = Webhook.account_id == webhook.account_id, Webhook.id == webhook.id
    held = update(Webhook).where(*webhook_filter, IS_HELD).values(values).returning(Webhook.id)
    ended = transaction.execute(held, execution_options={"synchronize_session": False}).first() is not None
    if ended:
        counts = {"events": webhook.events}
        record(transaction, Act(action, webhook.account_id, webhook.id, host_of(webhook.url), counts=counts))
    return ended
