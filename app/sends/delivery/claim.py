"""Claiming: which recipients a worker sends next, and giving them back.

A claimed row is `sending`, belongs to `worker`, and is its own until `lease_time`, which a living worker keeps moving.
Only who holds a row may write what became of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Update, exists, select, update
from sqlalchemy.orm import Session

from app.clock import now, seconds_from_now
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import Recipient, table_of
from app.db.queue import any_due, claim_due
from app.recipients.conditions import in_state
from app.recipients.states import RecipientState

LEASE = 90.0
"""Seconds for which a claimed row stays its worker's: longer than a living worker stalls, renewed well before."""

IS_SENDING = in_state(RecipientState.SENDING)
# Plain strings, because the driver of PostgreSQL binds them without a search through the bases of their class.
QUEUED, SENDING = RecipientState.QUEUED.value, RecipientState.SENDING.value


class ClaimedRecipient(NamedTuple):
    """A recipient that is this worker's to send."""

    id: int
    account_id: int
    uuid: str
    send_id: int
    list_id: int | None
    contact_id: int | None
    type: str
    email: str | None
    mobile: str | None
    values: dict[str, Any]
    reason: str | None
    attempts: int


CLAIMED = (*ClaimedRecipient._fields, "due_time")
DUE_TIME = CLAIMED.index("due_time")


def claim(transaction: Transaction, worker: str, *, size: int, after: int) -> list[ClaimedRecipient]:
    """Takes about `size` due rows, evenly from the accounts that come after the account `after`, in one statement.

    An account's oldest rows come first, and in the result the accounts take turns.
    """
    rows = claim_due(
        transaction,
        CLAIMED,
        moment=now(),
        size=size,
        after=after,
        state=SENDING,
        worker=worker,
        lease_end=seconds_from_now(LEASE),
    )
    oldest_first = sorted(rows, key=lambda row: (row[DUE_TIME], row[0]))
    return _in_turns([ClaimedRecipient._make(row[:DUE_TIME]) for row in oldest_first])


def _in_turns(claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    by_account: dict[int, list[ClaimedRecipient]] = {}
    for row in claimed:
        by_account.setdefault(row.account_id, []).append(row)
    rounds = itertools.zip_longest(*by_account.values())
    return [row for turns in rounds for row in turns if row is not None]


def release_claims(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Puts rows that were not tried back into the queue, due as they were."""
    if not ids:
        return
    statement = (
        update(Recipient)
        .where(*_held_by(worker, ids))
        .values(state=QUEUED, worker=None, lease_time=None, attempts=Recipient.attempts - 1)
    )
    transaction.execute(statement, execution_options={"synchronize_session": False})


def postpone(transaction: Transaction, worker: str, due_times: Mapping[int, datetime]) -> None:
    """Puts rows that were not tried back into the queue, due at those times."""
    if not due_times:
        return
    _POSTPONEMENT.run(transaction, [{"row": row, "due": due_times[row], "held_by": worker} for row in due_times])


def _postponement(row: RowValues) -> Update:
    columns = table_of(Recipient).c
    return (
        update(table_of(Recipient))
        .where(columns.id == row["row"], columns.state == SENDING, columns.worker == row["held_by"])
        .values(state=QUEUED, worker=None, lease_time=None, attempts=columns.attempts - 1, due_time=row["due"])
    )


_POSTPONEMENT = BulkUpdate(
    {"row": Recipient.id.type, "due": Recipient.due_time.type, "held_by": Recipient.worker.type}, _postponement
)


def release_unknown_claims(transaction: Transaction, worker: str, in_hand: Collection[int]) -> None:
    """Puts the rows back that are the worker's without its knowing: their claim was committed, and the answer lost."""
    held = select(Recipient.id).where(IS_SENDING, Recipient.worker == worker)
    release_claims(transaction, worker, set(transaction.scalars(held)) - set(in_hand))


def renew_leases(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Moves the end of the leases of rows that this worker still has in hand."""
    statement = update(Recipient).where(*_held_by(worker, ids)).values(lease_time=seconds_from_now(LEASE))
    transaction.execute(statement, execution_options={"synchronize_session": False})


def _held_by(worker: str, ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return in_json(Recipient.id, ids), Recipient.state == SENDING, Recipient.worker == worker


def has_due(session: Session) -> bool:
    """Whether any recipient is due. A few index probes per account that has queued rows, however many those are."""
    return session.execute(any_due(), {"moment": now()}).first() is not None


def has_expired_leases(session: Session) -> bool:
    """Whether any row is held by a worker that has not renewed its lease."""
    return bool(session.scalar(select(exists().where(IS_SENDING, Recipient.lease_time < now()))))
