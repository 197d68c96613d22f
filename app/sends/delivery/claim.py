"""Claiming the recipients that a worker sends next, and releasing them.

A claimed row is `sending` and leased to `worker` until `lease_time`, which a live worker keeps renewing. Only the
worker that holds the lease may write the row's result.
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
from app.recipients.conditions import IS_SENDING
from app.recipients.states import RecipientState

LEASE = 90.0
"""Seconds that a lease lasts: longer than a live worker stalls, and renewed well before its end."""

# Plain strings, because the driver of PostgreSQL binds them without a search through the bases of their class.
QUEUED, SENDING = RecipientState.QUEUED.value, RecipientState.SENDING.value


class ClaimedRecipient(NamedTuple):
    """The row of a recipient that this worker has claimed."""

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


_COLUMNS = (*ClaimedRecipient._fields, "due_time")
_DUE_TIME = _COLUMNS.index("due_time")


def claim(transaction: Transaction, worker: str, *, size: int, after: int) -> list[ClaimedRecipient]:
    """Claims about `size` due rows in one statement, evenly from the accounts that follow the account `after`.

    The oldest rows of an account come first, and the result interleaves the accounts.
    """
    rows = claim_due(
        transaction,
        _COLUMNS,
        moment=now(),
        size=size,
        after=after,
        state=SENDING,
        worker=worker,
        lease_end=seconds_from_now(LEASE),
    )
    oldest_first = sorted(rows, key=lambda row: (row[_DUE_TIME], row[0]))
    return _interleaved([ClaimedRecipient._make(row[:_DUE_TIME]) for row in oldest_first])


def _interleaved(claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    by_account: dict[int, list[ClaimedRecipient]] = {}
    for row in claimed:
        by_account.setdefault(row.account_id, []).append(row)
    rounds = itertools.zip_longest(*by_account.values())
    return [row for one_per_account in rounds for row in one_per_account if row is not None]


def release_claims(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Returns rows that were not attempted to the queue, with their due time unchanged."""
    if not ids:
        return
    statement = (
        update(Recipient)
        .where(*_leased_to(worker, ids))
        .values(state=QUEUED, worker=None, lease_time=None, attempts=Recipient.attempts - 1)
    )
    transaction.execute(statement, execution_options={"synchronize_session": False})


def postpone(transaction: Transaction, worker: str, due_times: Mapping[int, datetime]) -> None:
    """Returns rows that were not attempted to the queue, each with a new due time."""
    if not due_times:
        return
    _POSTPONE.run(transaction, [{"row": row, "due": due_times[row], "owner": worker} for row in due_times])


def _postpone_statement(row: RowValues) -> Update:
    columns = table_of(Recipient).c
    return (
        update(table_of(Recipient))
        .where(columns.id == row["row"], columns.state == SENDING, columns.worker == row["owner"])
        .values(state=QUEUED, worker=None, lease_time=None, attempts=columns.attempts - 1, due_time=row["due"])
    )


_POSTPONE = BulkUpdate(
    {"row": Recipient.id.type, "due": Recipient.due_time.type, "owner": Recipient.worker.type}, _postpone_statement
)


def release_unknown_claims(transaction: Transaction, worker: str, known: Collection[int]) -> None:
    """Releases rows that are leased to the worker without its knowledge, because the answer to a committed claim was
    lost."""
    leased = select(Recipient.id).where(IS_SENDING, Recipient.worker == worker)
    release_claims(transaction, worker, set(transaction.scalars(leased)) - set(known))


def renew_leases(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Extends the leases of rows that this worker is still sending."""
    statement = update(Recipient).where(*_leased_to(worker, ids)).values(lease_time=seconds_from_now(LEASE))
    transaction.execute(statement, execution_options={"synchronize_session": False})


def _leased_to(worker: str, ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return in_json(Recipient.id, ids), Recipient.state == SENDING, Recipient.worker == worker


def has_due(session: Session) -> bool:
    """Whether any recipient is due; a few index probes per account with queued rows, however many rows those are."""
    return session.execute(any_due(), {"moment": now()}).first() is not None


def has_expired_leases(session: Session) -> bool:
    """Whether the lease of any row has expired."""
    return bool(session.scalar(select(exists().where(IS_SENDING, Recipient.lease_time < now()))))
