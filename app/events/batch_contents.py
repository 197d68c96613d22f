"""The events of a webhook's batch: which they are, from the claim on until they are accepted or expire.

The webhook's row lists their ids, and their own rows are left alone: to stamp a thousand of them cost more than all
the rest of a batch, since PostgreSQL writes an updated row and its index entries anew and the vacuum clears them away
twice. The list is exact, not a range: an event whose transaction ends later can have an id in between, and would be
deleted unsent with the batch.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, bindparam, delete, select

from app.db.database import Transaction
from app.db.in_json import in_json, json_array
from app.db.models import Event
from app.db.prepared import Prepared
from app.events.webhook_lease import Held

MOST_EVENTS = 1000
"""Of one request (docs/webhooks.md#batches)."""


def oldest_events(webhook_id: Any, limit: int, *columns: Any) -> Select[Any]:
    """Ids, or the given columns, of the first events of a webhook.

    A range of one value, in the order of the index on both columns: with an equality PostgreSQL may read the whole
    table in the order of its primary key instead, since one webhook with a backlog makes it expect a hit at every row.
    """
    of_webhook = select(*(columns or (Event.id,))).where(Event.webhook_id.between(webhook_id, webhook_id))
    return of_webhook.order_by(Event.webhook_id, Event.id).limit(limit)


_IS_OF_BATCH = in_json(Event.id, bindparam("events", type_=String))
OLDEST = Prepared(
    oldest_events(bindparam("webhook_id", type_=Event.webhook_id.type), MOST_EVENTS, Event.id, Event.payload)
)
OF_BATCH = Prepared(select(Event.payload).where(_IS_OF_BATCH).order_by(Event.id))
DROP_BATCH = Prepared(delete(Event).where(_IS_OF_BATCH))


def fix_batch(transaction: Transaction, webhook: Held) -> list[str]:
    """The payloads of the batch: of the one that is on the webhook, else of a new one of the oldest events."""
    if webhook.batch_events:
        rows = OF_BATCH.tuples(transaction, events=json_array(webhook.batch_events))
        if rows:
            return [payload for (payload,) in rows]
    found = OLDEST.tuples(transaction, webhook_id=webhook.id)
    webhook.batch_id = str(uuid.uuid4())
    webhook.batch_events = [event_id for event_id, _ in found]
    webhook.first_failed_time = None
    return [payload for _, payload in found]


def drop_expired(transaction: Transaction, webhook: Held, limit: datetime) -> int:
    """Drops the events of the batch if its first failed try was that long ago; counts them."""
    if webhook.first_failed_time is None or webhook.first_failed_time > limit:
        return 0
    dropped = take_off(transaction, webhook)
    webhook.dropped_events += dropped
    return dropped


def take_off(transaction: Transaction, webhook: Held) -> int:
    """Ends the batch and deletes its events; counts them."""
    events = json_array(webhook.batch_events or [])
    webhook.batch_id = webhook.batch_events = webhook.first_failed_time = None
    return DROP_BATCH.run(transaction, events=events)
