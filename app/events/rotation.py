"""Rotation of the tables of events: the older one is emptied and becomes the one that is written to
(docs/decisions/018-events-in-rotating-tables.md).

Only this removes events, and so it limits their number: a table is written to for RETAIN_EVENTS, and longer only while
a webhook has not passed all of the other one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import func, select, update

from app.clock import now
from app.db.commit_order import MAX_ID, delete_piece, end_of_piece, last_event_id, lock_slot
from app.db.database import Transaction
from app.db.models import Event, EventRotation, Webhook
from app.events.batch_contents import oldest_waiting
from app.services import Services

MAX_LAG = timedelta(days=6)
"""For how much longer events of the other table are kept if a webhook has not passed them; then they are dropped."""

logger = logging.getLogger(__name__)


def rotate_events(services: Services) -> None:
    """Rotates the tables if it is time and nobody uses them; otherwise the next call tries again."""
    period = services.settings.retain_events
    if period is None:
        return
    while not services.stopping.is_set():
        with services.database.write() as transaction:
            if not _delete_piece(transaction, period):
                return


def _delete_piece(transaction: Transaction, period: timedelta) -> bool:
    """Deletes the older events, or a piece of them; returns whether there are more."""
    rotation = transaction.scalars(select(EventRotation).with_for_update()).one()
    age = now() - rotation.since_time
    if age < period:
        return False
    lagging = _lock_lagging(transaction, rotation.other_slot)
    if lagging and age < period + MAX_LAG:
        logger.info("events are kept, because webhooks have not received them yet", extra={"webhooks": len(lagging)})
        return False
    if not lock_slot(transaction, rotation.other_slot):
        logger.info("events are kept, because their table is being read")
        return False
    # A transaction that was still writing to the table has ended by now.
    if _lock_lagging(transaction, rotation.other_slot) != lagging:
        return False
    end = end_of_piece(transaction, rotation)
    for webhook_id in lagging:
        _drop(transaction, webhook_id, rotation.other_slot, end)
    delete_piece(transaction, rotation, end)
    if end != MAX_ID:
        return True
    rotation.slot, rotation.since_id, rotation.since_time = rotation.other_slot, last_event_id(transaction), now()
    return False


def _lock_lagging(transaction: Transaction, slot: int) -> Sequence[int]:
    """The webhooks with events in the slot that they have not passed, under row locks, which are taken before the lock
    of the table, as in a claim."""
    waiting = oldest_waiting(Webhook.id, Webhook.position, 1).where(Event.slot == slot)
    statement = select(Webhook.id).where(waiting.scalar_subquery().is_not(None)).order_by(Webhook.id)
    return transaction.scalars(statement.with_for_update(key_share=True, of=Webhook)).all()


def _drop(transaction: Transaction, webhook_id: int, slot: int, end: int) -> None:
    """Counts the events up to `end` as dropped, and ends the batch, which begins with them."""
    waiting = select(func.count()).select_from(Event).join(Webhook, Webhook.id == Event.webhook_id)
    waiting = waiting.where(Webhook.id == webhook_id, Event.slot == slot, Event.id > Webhook.position, Event.id <= end)
    dropped = transaction.scalars(waiting).one()
    counted = Webhook.dropped_events + dropped
    values = {"batch_id": None, "batch_end": None, "first_failed_time": None, "dropped_events": counted}
    transaction.execute(update(Webhook).where(Webhook.id == webhook_id).values(values))
    message = "webhook %s: dropped %s events that have waited for too long"
    transaction.after_commit(partial(logger.warning, message, webhook_id, dropped))
