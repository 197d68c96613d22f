"""Holding all messages of a restored database that are not settled, in the transaction that restores it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, case, insert, literal, select, update

from app.clock import timestamp
from app.db.models import QueueEntry, RecipientStep, table_of
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep


def hold_messages(connection: Connection, taken: datetime, moment: datetime) -> int:
    """Holds every entry of the send queue, with a step in its recipient's timeline; returns how many. `taken` is the
    time of the backup. Entries that were held in it stay as they are; those that were paused were queued."""
    entries, steps = table_of(QueueEntry), table_of(RecipientStep)
    is_free = entries.c.state != RecipientState.HELD.value
    queued = {RecipientState.PAUSED.value: RecipientState.QUEUED.value}
    was = case(queued, value=entries.c.state, else_=entries.c.state)
    text = f"the service was restored from a backup of {timestamp(taken)}, in which this was "
    columns = {
        "account_id": entries.c.account_id,
        "recipient_id": entries.c.recipient_id,
        "time": literal(moment, steps.c.time.type),
        "step": literal(TimelineStep.HELD.value, steps.c.step.type),
        "detail": literal(text, steps.c.detail.type) + was,
    }
    noted = select(*columns.values()).where(is_free).order_by(entries.c.recipient_id)
    connection.execute(insert(steps).from_select(list(columns), noted))
    free = {"worker": None, "lease_time": None, "pause_id": None}
    values = {"held_state": was, "state": RecipientState.HELD.value, **free}
    return connection.execute(update(entries).where(is_free).values(values)).rowcount
