"""Replay: events that a webhook has accepted are delivered again, as far back as they are kept.

Delivery deletes nothing (docs/decisions/018-events-in-rotating-tables.md), so the webhook's position only has to move
back.
"""

from __future__ import annotations

from sqlalchemy import select

from app.db.database import Transaction
from app.db.models import Event, Webhook


def replay(transaction: Transaction, webhook: Webhook, most: int) -> int:
    """Makes the last events before the position wait again, `most` of them at most; returns how many.

    The batch in flight ends: its events are sent again, after these and under another id.
    """
    locked = select(Webhook).where(Webhook.account_id == webhook.account_id, Webhook.id == webhook.id)
    locked = locked.with_for_update(key_share=True).execution_options(populate_existing=True)
    webhook = transaction.scalars(locked).one()
    done = select(Event.id).where(Event.webhook_id == webhook.id, Event.id <= webhook.position)
    ids = transaction.scalars(done.order_by(Event.webhook_id.desc(), Event.id.desc()).limit(most)).all()
    if ids:
        webhook.position = ids[-1] - 1
        webhook.batch_id = webhook.batch_end = webhook.first_failed_time = None
        transaction.flush()
    return len(ids)
