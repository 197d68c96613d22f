"""What a restored backup would report by itself, without that anybody sends anything: replies of which parts are
missing, and what was to happen to captured messages (docs/operations.md#what-a-restore-holds)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, exists, update

from app.db.database import Transaction
from app.db.models import CapturedMessage, QueueEntry, table_of
from app.inbound.reassembly import flush


def record_incomplete_replies(part: Callable[[], AbstractContextManager[Transaction]]) -> None:
    """Records the replies that wait for parts now, each in a part of the transaction that restores them: the other
    parts have arrived since the backup was made, or never will, and later the event would go out unasked."""
    flush(part, part, None)


def drop_simulations(connection: Connection) -> None:
    """Nothing happens any more to captured messages that were sent: seconds after the backup it did. Those that are
    held keep what is to happen to them."""
    captured, entries = table_of(CapturedMessage), table_of(QueueEntry)
    is_unsettled = exists().where(entries.c.recipient_id == captured.c.recipient_id)
    ended = update(captured).where(captured.c.simulate_time.is_not(None), ~is_unsettled)
    connection.execute(ended.values(simulate_time=None))
