"""Claiming the recipients that a worker sends next, evenly over the accounts, and releasing them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Update, select, update
from sqlalchemy.orm import Session

from app.clock import now, seconds_from_now, uptime
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.due import NEWCOMER_ENTRIES, DueAccounts, Positions
from app.db.expressions import in_json
from app.db.models import QueueEntry, table_of
from app.db.queue import NORMAL_PART, SEND_QUEUE, claim_due
from app.infrastructure.tracing import span
from app.recipients.conditions import IS_SENDING
from app.recipients.states import RecipientState
from app.sends.delivery.recipient import ClaimedRecipient

LEASE = 90.0
"""Seconds that a lease lasts: longer than a live worker stalls, and renewed well before its end."""

# Plain strings, because the driver of PostgreSQL binds them without a search through the bases of their class.
QUEUED, SENDING = RecipientState.QUEUED.value, RecipientState.SENDING.value


def claim(
    transaction: Transaction, worker: str, *, size: int, after: int, number: int = 0, due: DueAccounts | None = None
) -> list[ClaimedRecipient]:
    """Claims about `size` due entries, evenly from the accounts that follow the account `after`, and before them, if
    more accounts wait than can be served, some from those that had nothing due until now; `number` counts the claims of
    the worker, and `due` is its memory between them.

    The oldest of an account come first, its priorities alternate, and the result interleaves the accounts.
    """
    due = due or DueAccounts(SEND_QUEUE)
    due.look(transaction)

    def claimed_from(accounts: Mapping[int, Positions], most: int) -> list[ClaimedRecipient]:
        began = uptime()
        rows = claim_due(
            transaction,
            moment=now(),
            accounts=accounts,
            size=most,
            number=number,
            state=SENDING,
            worker=worker,
            lease_end=seconds_from_now(LEASE),
        )
        claimed = [ClaimedRecipient(*row) for row in rows]
        for recipient in claimed:
            recipient.lease_end = began + LEASE
        places = (
            (recipient.account_id, recipient.priority, (recipient.due_time, recipient.id)) for recipient in claimed
        )
        due.note_taken(accounts, max(1, most // max(1, len(accounts))), places)
        return claimed

    with span("claim") as open_span:
        newcomers = due.newcomers(size)
        first = claimed_from(newcomers, min(len(newcomers) * NEWCOMER_ENTRIES, max(1, size // 2))) if newcomers else []
        remaining = max(1, size - len(first))
        others: list[ClaimedRecipient] = []
        while not others and (accounts := due.next_accounts(after, remaining)):
            others = claimed_from(accounts, remaining)
        open_span.add(tms__recipients=len(first) + len(others))
    return [*_in_turns(first), *_in_turns(others)]


def _in_turns(claimed: Iterable[ClaimedRecipient]) -> list[ClaimedRecipient]:
    by_account: dict[int, list[ClaimedRecipient]] = {}
    for recipient in sorted(claimed, key=lambda recipient: (recipient.due_time, recipient.id)):
        by_account.setdefault(recipient.account_id, []).append(recipient)
    turns = itertools.zip_longest(*map(_by_priority, by_account.values()))
    return [recipient for one_each in turns for recipient in one_each if recipient is not None]


def _by_priority(rows: Sequence[ClaimedRecipient]) -> Iterable[ClaimedRecipient]:
    """The rows of one account: a normal one after a number of those with high priority. The last rows of a batch are
    the first to be released if connections are scarce, and these must not always be the normal ones."""
    high = [row for row in rows if row.priority == "high"]
    if not high:
        return rows
    normal = iter([row for row in rows if row.priority != "high"])
    parts = [high[first : first + NORMAL_PART - 1] for first in range(0, len(high), NORMAL_PART - 1)]
    return [*itertools.chain.from_iterable([*part, *itertools.islice(normal, 1)] for part in parts), *normal]


def is_full(claimed: Collection[ClaimedRecipient], size: int) -> bool:
    """Whether a claim of that size found as much as it may take of some account, so that there is probably more."""
    counts = Counter(recipient.account_id for recipient in claimed)
    return bool(counts) and max(counts.values()) >= max(1, size // len(counts))


def release_claims(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Returns entries that were not attempted to the queue, with their due time unchanged."""
    if not ids:
        return
    statement = (
        update(QueueEntry)
        .where(*_leased_to(worker, ids))
        .values(state=QUEUED, worker=None, lease_time=None, attempts=QueueEntry.attempts - 1, ready_time=now())
    )
    transaction.execute(statement, execution_options={"synchronize_session": False})


def postpone(transaction: Transaction, worker: str, due_times: Mapping[int, datetime]) -> None:
    """Returns entries that were not attempted to the queue, each with a new due time."""
    if not due_times:
        return
    moment = now()
    _POSTPONE.run(
        transaction,
        [{"row": row, "due": due, "ready": max(due, moment), "owner": worker} for row, due in due_times.items()],
    )


def _postpone_statement(row: RowValues) -> Update:
    columns = table_of(QueueEntry).c
    return (
        update(table_of(QueueEntry))
        .where(columns.recipient_id == row["row"], columns.state == SENDING, columns.worker == row["owner"])
        .values(
            state=QUEUED,
            worker=None,
            lease_time=None,
            attempts=columns.attempts - 1,
            due_time=row["due"],
            ready_time=row["ready"],
        )
    )


_POSTPONE = BulkUpdate(
    {
        "row": QueueEntry.recipient_id.type,
        "due": QueueEntry.due_time.type,
        "ready": QueueEntry.ready_time.type,
        "owner": QueueEntry.worker.type,
    },
    _postpone_statement,
)


def release_unknown_claims(transaction: Transaction, worker: str, kept_ids: Collection[int]) -> None:
    """Releases entries that are leased to the worker without its knowledge, because the answer to a committed claim was
    lost."""
    leased = select(QueueEntry.recipient_id).where(IS_SENDING, QueueEntry.worker == worker)
    release_claims(transaction, worker, set(transaction.scalars(leased)) - set(kept_ids))


def locked_by_others(transaction: Transaction, worker: str, ids: Collection[int]) -> set[int]:
    """Those of the entries leased to the worker that other transactions have locked. The others are locked until the
    end of this one."""
    leased = select(QueueEntry.recipient_id).where(*_leased_to(worker, ids))
    return {*transaction.scalars(leased)} - {*transaction.scalars(leased.with_for_update(skip_locked=True))}


def renew_leases(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Extends the leases of the entries that this worker is still sending."""
    statement = update(QueueEntry).where(*_leased_to(worker, ids)).values(lease_time=seconds_from_now(LEASE))
    transaction.execute(statement, execution_options={"synchronize_session": False})


def _leased_to(worker: str, ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return in_json(QueueEntry.recipient_id, ids), QueueEntry.state == SENDING, QueueEntry.worker == worker


def has_due(session: Session, due: DueAccounts | None = None) -> bool:
    """Whether any recipient is due; `due` is the process's memory between its looks."""
    due = due or DueAccounts(SEND_QUEUE)
    return due.look(session) or due.has_any(session)
