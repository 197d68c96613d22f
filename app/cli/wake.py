"""Waking the sender workers after a change that they have to notice."""

from __future__ import annotations

from app.db.database import Transaction
from app.http.context import services
from app.infrastructure.queueing import SENDS


def wake_after(transaction: Transaction) -> None:
    """Wakes a worker after the commit: over a new transport replies may arrive while there is nothing to send."""
    wake_ups = services().wake_ups
    transaction.after_commit(lambda: wake_ups.wake(SENDS))
