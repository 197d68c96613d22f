"""The effect of transitions on the send queue: the entries of settled recipients are deleted, the others get a new due
time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Update, func, select, update

from app.clock import now
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.models import QueueEntry, Recipient, table_of
from app.recipients.states import UNSETTLED
from app.recipients.store import delete_queue_entries
from app.sends.outcomes.transitions import Transition


def settle_or_requeue(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """At most two statements; nearly always one, because nearly always all are settled. The caller holds the locks."""
    waiting = [one for one in transitions if one.state in UNSETTLED]
    delete_queue_entries(transaction, [one.recipient.id for one in transitions if one.state not in UNSETTLED])
    _UPDATE.run(transaction, [_column_values(one) for one in waiting])


def rendered_before(recipient_id: Any) -> Any:
    """The bytes that were rendered for the recipient at an earlier attempt."""
    return (
        select(QueueEntry.rendered_bytes)
        .where(QueueEntry.recipient_id == recipient_id)
        .correlate(table_of(Recipient))
        .scalar_subquery()
    )


def _update_statement(row: RowValues) -> Update:
    columns = table_of(QueueEntry).c
    values: dict[str, Any] = {
        "state": row["state"],
        "due_time": row["due_time"],
        "ready_time": row["ready_time"],
        "rendered_bytes": func.coalesce(row["rendered_bytes"], columns.rendered_bytes),
        "worker": None,
        "lease_time": None,
    }
    return update(table_of(QueueEntry)).where(columns.recipient_id == row["row"]).values(values)


_UPDATE = BulkUpdate(
    {
        "row": QueueEntry.recipient_id.type,
        **{name: table_of(QueueEntry).c[name].type for name in ("state", "due_time", "ready_time", "rendered_bytes")},
    },
    _update_statement,
)


def _column_values(transition: Transition) -> dict[str, Any]:
    return {
        "row": transition.recipient.id,
        "state": transition.state,
        "due_time": transition.due_time,
        "ready_time": transition.due_time and max(transition.due_time, now()),
        "rendered_bytes": transition.attempt_result.rendered,
    }
