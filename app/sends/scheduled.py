"""Scheduled messages: they enter the send queue when the `send_at` of their send has come (docs/scheduling.md).

Until then their queue entries are `scheduled`, so that they cost those who look for what is due nothing, however many
they are. They enter it evenly over the accounts: a million that one account has scheduled for nine o'clock do not
delay the one of another.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, exists

from app.clock import now
from app.db.database import Transaction
from app.db.due import DueAccounts
from app.db.models import QueueEntry
from app.db.queue import ONLY_PRIORITY, SCHEDULED_QUEUE, lock_due
from app.recipients.conditions import entry_in_state
from app.recipients.row import update_queue_entries
from app.recipients.states import RecipientState

SLICE_SIZE = 500
"""Messages of one transaction."""


def has_scheduled_due(moment: Any) -> ColumnElement[bool]:
    """Whether the time of any scheduled message has come by that moment, as a column to select."""
    return exists().where(entry_in_state(RecipientState.SCHEDULED), QueueEntry.due_time <= moment)


class ScheduledMessages:
    """The scheduled messages, as one process remembers them."""

    def __init__(self) -> None:
        self._due = DueAccounts(SCHEDULED_QUEUE)

    def queue_due(self, transaction: Transaction) -> int:
        """Queues a slice of those whose time has come; returns how many. Each keeps that time as its due time."""
        self._due.look(transaction)
        accounts = self._due.next_accounts(self._due.last_account, SLICE_SIZE)
        each = max(1, SLICE_SIZE // max(1, len(accounts)))
        entries = lock_due(SCHEDULED_QUEUE, transaction, accounts, now(), each) if accounts else []
        places = ((entry.account_id, ONLY_PRIORITY, (entry.due_time, entry.id)) for entry in entries)
        self._due.note_taken(accounts, each, places)
        if entries:
            ids = [entry.id for entry in entries]
            update_queue_entries(transaction, ids, state=RecipientState.QUEUED, ready_time=now())
        return len(entries)

    def forget(self) -> None:
        """Forgets what it remembers: what it has queued was rolled back, or it is unknown whether it was."""
        self._due.clear()
