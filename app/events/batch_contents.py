"""Events of a webhook's batch: which they are, from the claim until the batch is accepted or expires.

The webhook's row lists their ids, and their own rows stay as they are: stamping a thousand of them cost more than all
the rest of a batch, since PostgreSQL writes an updated row and its index entries anew and the vacuum cleans up twice.
The list is exact, not a range: an event whose transaction commits later can have an id in between, and would be deleted
unsent with the batch.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, bindparam, delete, select

from app.db.database import Transaction
from app.db.in_json import in_json, json_array
from app.db.models import Event
from app.db.prepared import PreparedStatement
from app.events.webhook_lease import LockedWebhook

MAX_EVENTS = 1000
"""Of one request (docs/webhooks.md#batches)."""


def oldest_events(webhook_id: Any, limit: int, *columns: Any) -> Select[Any]:
    """Ids, or the given columns, of the oldest events of a webhook.

    A range of one value, in the order of the index on both columns: with an equality PostgreSQL may read the whole
    table in the order of its primary key instead, since one webhook with a backlog makes it expect a hit at every row.
    """
    of_webhook = select(*(columns or (Event.id,))).where(Event.webhook_id.between(webhook_id, webhook_id))
    return of_webhook.order_by(Event.webhook_id, Event.id).limit(limit)


_IN_BATCH = in_json(Event.id, bindparam("events", type_=String))
OLDEST_EVENTS = PreparedStatement(
    oldest_events(bindparam("webhook_id", type_=Event.webhook_id.type), MAX_EVENTS, Event.id, Event.payload)
)
BATCH_PAYLOADS = PreparedStatement(select(Event.payload).where(_IN_BATCH).order_by(Event.id))
DELETE_BATCH = PreparedStatement(delete(Event).where(_IN_BATCH))


def batch_payloads(transaction: Transaction, webhook: LockedWebhook) -> list[str]:
    """Payloads of the webhook's current batch; without one, of a new batch with its oldest events."""
    if webhook.batch_events:
        rows = BATCH_PAYLOADS.tuples(transaction, events=json_array(webhook.batch_events))
        if rows:
            return [payload for (payload,) in rows]
    oldest = OLDEST_EVENTS.tuples(transaction, webhook_id=webhook.id)
    webhook.batch_id = str(uuid.uuid4())
    webhook.batch_events = [event_id for event_id, _ in oldest]
    webhook.first_failed_time = None
    return [payload for _, payload in oldest]


def drop_expired(transaction: Transaction, webhook: LockedWebhook, limit: datetime) -> int:
    """Deletes the events of the batch if its first failed attempt was before the limit; returns how many."""
    if webhook.first_failed_time is None or webhook.first_failed_time > limit:
        return 0
    dropped = delete_batch(transaction, webhook)
    webhook.dropped_events += dropped
    return dropped


def delete_batch(transaction: Transaction, webhook: LockedWebhook) -> int:
    """Ends the batch and deletes its events; returns how many."""
    events = json_array(webhook.batch_events or [])
    webhook.batch_id = webhook.batch_events = webhook.first_failed_time = None
    return DELETE_BATCH.run(transaction, events=events)
