"""Letting go of what a pause has put aside, once it has ended: in slices, between which a worker sends.

A pause that has ended stays until nothing is left of it, so that an interruption loses nothing: the scheduler finds it
(app/maintenance/sweeps.py). Any number of workers may take slices at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Row, case, delete, exists, func, select

from app.clock import now
from app.db.database import Transaction
from app.db.models import QueueEntry, SendPause, table_of
from app.recipients.conditions import entry_in_state
from app.recipients.row import add_steps, step_row, update_queue_entries
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep

SLICE_SIZE = 500
"""Messages of one transaction."""
IS_PAUSED = entry_in_state(RecipientState.PAUSED)
RESUME_DETAIL = "the pause has ended"


def next_ended_pause(last: ColumnElement[int]) -> ColumnElement[int]:
    """The id of a pause that has ended of which messages may be left, or null, as a column to select: the next after
    `last`, or the first."""
    ended = select(SendPause.id).where(SendPause.resumed_time.is_not(None)).order_by(SendPause.id).limit(1)
    return func.coalesce(ended.where(SendPause.id > last).scalar_subquery(), ended.scalar_subquery())


class PausedMessages:
    """The messages of pauses that have ended, as one drain remembers them."""

    def __init__(self) -> None:
        self.last = 0
        """The pause that had the last turn: a large one does not keep those of other accounts waiting."""
        self._after: dict[int, int] = {}
        """Pause -> where its next slice begins: without it each would read past all those before, beside a snapshot
        that is held elsewhere."""

    def queue_slice(self, transaction: Transaction, pause_id: int) -> int:
        """Lets go of a slice of those of the pause; returns how many."""
        rows = _lock(transaction, pause_id, self._after.pop(pause_id, 0))
        _let_go(transaction, rows)
        if len(rows) < SLICE_SIZE:
            _forget_empty(transaction, pause_id)
        else:
            self._after[pause_id] = rows[-1].recipient_id
        self.last = pause_id
        return len(rows)


def _lock(transaction: Transaction, pause_id: int, after: int) -> Sequence[Row[int, int]]:
    """The next entries that the pause has put aside. No worker waits for another one."""
    entries = select(QueueEntry.recipient_id, QueueEntry.account_id).where(IS_PAUSED, QueueEntry.pause_id == pause_id)
    next_entries = entries.where(QueueEntry.recipient_id > after).order_by(QueueEntry.recipient_id).limit(SLICE_SIZE)
    return transaction.execute(next_entries.with_for_update(skip_locked=True)).all()


def _let_go(transaction: Transaction, rows: Sequence[Row[int, int]]) -> None:
    """Puts messages back into the queue. Each is due when it was, and so keeps its place."""
    if not rows:
        return
    moment, ids = now(), [row.recipient_id for row in rows]
    ready_time = case((QueueEntry.due_time <= moment, moment), else_=QueueEntry.due_time)
    update_queue_entries(transaction, ids, state=RecipientState.QUEUED, pause_id=None, ready_time=ready_time)
    steps = [step_row(row.account_id, row.recipient_id, TimelineStep.RESUMED, RESUME_DETAIL, moment) for row in rows]
    add_steps(transaction, steps)


def _forget_empty(transaction: Transaction, pause_id: int) -> None:
    """Deletes the pause if no message of it is left, not even one that another worker lets go at this moment."""
    pauses, left = table_of(SendPause).c, exists().where(IS_PAUSED, QueueEntry.pause_id == pause_id)
    ended = pauses.id == pause_id, pauses.resumed_time.is_not(None), ~left
    transaction.connection().execute(delete(table_of(SendPause)).where(*ended))
