"""Claiming the recipients that a worker sends next, evenly over the accounts, and releasing them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import ColumnElement, Update, select, update
from sqlalchemy.orm import Session

from app.clock import now, seconds_from_now
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import QueueEntry, table_of
from app.db.queue import (
    FULL_SHARE,
    NORMAL_PART,
    FullLooks,
    Position,
    Positions,
    claim_due,
    look_at_all,
    look_at_ready,
    still_due,
)
from app.infrastructure.tracing import span
from app.recipients.conditions import IS_SENDING
from app.recipients.states import RecipientState
from app.sends.delivery.recipient import Claimed

REACH = timedelta(seconds=0.3)
"""A look reaches back this far before the last one: acceptance commits a moment after the time that it writes."""
FAR_REACH = timedelta(seconds=15)
"""Every `FAR_EVERY` a look reaches back this far, for slower commits and differing clocks."""
FAR_EVERY = timedelta(seconds=1)
NEWCOMER_ENTRIES = 4
"""Entries of a newcomer that go before the turn of its account: more than the one message that somebody waits for, so
that it is known when an account with one has nothing more, and is a newcomer with its next."""
PROBED = 100
"""Accounts that one statement looks at."""


class DueAccounts:
    """One per process that looks for due entries; one thread at a time uses it.

    `full_share` is 1 for one that forgets: then every look is at the whole queue.
    """

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._full_looks = FullLooks(full_share)
        self._positions: dict[int, dict[str, Position]] = {}
        self._newcomers: dict[int, None] = {}
        """Accounts that had nothing due at the look before, in the order in which they were found."""
        self.last_account = 0
        """The last account of those that `next_accounts` has given."""
        self._looked = self._looked_far = now()

    def look(self, session: Session) -> bool:
        """Finds what has become due; False if there is nothing new, so that only earlier findings remain."""
        moment, began = now(), time.monotonic()
        if self._full_looks.is_due():
            found = look_at_all(session, moment)
            self._full_looks.note(began)
            self._note_newcomers(found if self._positions else ())
            self._positions = {account_id: dict(positions) for account_id, positions in found.items()}
            self._newcomers = {account_id: None for account_id in self._newcomers if account_id in found}
            self._looked_far = moment
        else:
            found = look_at_ready(session, self._since(moment), moment)
            self._note_newcomers(found)
            self._add(found)
        self._looked = moment
        return bool(found)

    def has_any(self, session: Session) -> bool:
        """Whether anything that was found is still due: other workers may have claimed it."""
        while self._positions:
            probed = dict(islice(self._positions.items(), PROBED))
            due = still_due(session, probed, now())
            self._forget_accounts(probed.keys() - due.keys())
            for account_id, found in due.items():
                # Behind the others, which are probed the next time.
                known = self._positions.pop(account_id)
                self._positions[account_id] = {name: max(first, known[name]) for name, first in found.items()}
            if due:
                return True
        return False

    @property
    def begin(self) -> datetime:
        """The time before which no entry that is due has become ready, as far as is known after a look."""
        firsts = (position.due_time for positions in self._positions.values() for position in positions.values())
        return min([self._looked - FAR_REACH, *firsts])

    def next_accounts(self, after: int, count: int) -> dict[int, Positions]:
        """At most that many accounts with due entries: those after the account `after`, then from the first one on."""
        in_turn = sorted(self._positions, key=lambda account_id: (account_id <= after, account_id))[:count]
        self.last_account = in_turn[-1] if in_turn else after
        return {account_id: self._positions[account_id] for account_id in in_turn}

    def newcomers(self, size: int) -> dict[int, Positions]:
        """Accounts that a claim of this size takes before those in turn, where these are more than it can serve: the
        latest that had nothing due before."""
        if len(self._positions) <= size:
            return {}
        latest = list(islice(reversed(self._newcomers), max(1, size // (2 * NEWCOMER_ENTRIES))))
        return {account_id: self._positions[account_id] for account_id in latest}

    def note_claimed(self, served: Collection[int], size: int, claimed: Iterable[Claimed]) -> None:
        """Records the positions of the accounts after a claim of that size; one that gave less than its part has
        nothing more."""
        by_account: dict[int, list[Claimed]] = {account_id: [] for account_id in served}
        for recipient in claimed:
            # A recipient that was moved to another account by hand must not stop the sending of all others.
            if recipient.account_id in by_account:
                by_account[recipient.account_id].append(recipient)
        part = max(1, size // max(1, len(served)))
        for account_id, own in by_account.items():
            self._newcomers.pop(account_id, None)
            if len(own) < part:
                self._positions.pop(account_id, None)
                continue
            for recipient in own:
                place = Position(recipient.due_time, recipient.id)
                positions = self._positions[account_id]
                positions[recipient.priority] = max(positions[recipient.priority], place)

    def clear(self) -> None:
        """Makes the next look a full one: a claim was rolled back, or it is unknown whether it was."""
        self._positions = {}
        self._newcomers = {}
        self._full_looks.renew()

    def _since(self, moment: datetime) -> datetime:
        if moment < self._looked_far + FAR_EVERY:
            return self._looked - REACH
        self._looked_far = moment
        return moment - max(FAR_REACH, moment - self._looked + REACH)

    def _note_newcomers(self, found: Iterable[int]) -> None:
        self._newcomers |= dict.fromkeys(account_id for account_id in found if account_id not in self._positions)

    def _add(self, found: Mapping[int, Positions]) -> None:
        for account_id, positions in found.items():
            known = self._positions.setdefault(account_id, {})
            for priority, position in positions.items():
                known[priority] = min(known.get(priority, position), position)

    def _forget_accounts(self, accounts: Iterable[int]) -> None:
        for account_id in accounts:
            self._positions.pop(account_id, None)
            self._newcomers.pop(account_id, None)


LEASE = 90.0
"""Seconds that a lease lasts: longer than a live worker stalls, and renewed well before its end."""

# Plain strings, because the driver of PostgreSQL binds them without a search through the bases of their class.
QUEUED, SENDING = RecipientState.QUEUED.value, RecipientState.SENDING.value


def claim(
    transaction: Transaction, worker: str, *, size: int, after: int, number: int = 0, due: DueAccounts | None = None
) -> list[Claimed]:
    """Claims about `size` due entries, evenly from the accounts that follow the account `after`, and before them, if
    more accounts wait than can be served, some from those that had nothing due until now; `number` counts the claims of
    the worker, and `due` is its memory between them.

    The oldest of an account come first, its priorities alternate, and the result interleaves the accounts.
    """
    due = due or DueAccounts()
    due.look(transaction)

    def claimed_from(accounts: Mapping[int, Positions], most: int) -> list[Claimed]:
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
        claimed = [Claimed(*row) for row in rows]
        due.note_claimed(accounts, most, claimed)
        return claimed

    with span("claim") as open_span:
        newcomers = due.newcomers(size)
        first = claimed_from(newcomers, min(len(newcomers) * NEWCOMER_ENTRIES, max(1, size // 2))) if newcomers else []
        remaining = max(1, size - len(first))
        others: list[Claimed] = []
        while not others and (accounts := due.next_accounts(after, remaining)):
            others = claimed_from(accounts, remaining)
        open_span.add(tms__recipients=len(first) + len(others))
    return [*_in_turns(first), *_in_turns(others)]


def _in_turns(claimed: Iterable[Claimed]) -> list[Claimed]:
    by_account: dict[int, list[Claimed]] = {}
    for recipient in sorted(claimed, key=lambda one: (one.due_time, one.id)):
        by_account.setdefault(recipient.account_id, []).append(recipient)
    turns = itertools.zip_longest(*map(_by_priority, by_account.values()))
    return [recipient for one_each in turns for recipient in one_each if recipient is not None]


def _by_priority(rows: Sequence[Claimed]) -> Iterable[Claimed]:
    """The rows of one account: a normal one after a number of those with high priority. The last rows of a batch are
    the first to be released if connections are scarce, and these must not always be the normal ones."""
    high = [row for row in rows if row.priority == "high"]
    if not high:
        return rows
    normal = iter([row for row in rows if row.priority != "high"])
    parts = [high[first : first + NORMAL_PART - 1] for first in range(0, len(high), NORMAL_PART - 1)]
    return [*itertools.chain.from_iterable([*part, *itertools.islice(normal, 1)] for part in parts), *normal]


def is_full(claimed: Collection[Claimed], size: int) -> bool:
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


def release_unknown_claims(transaction: Transaction, worker: str, known: Collection[int]) -> None:
    """Releases entries that are leased to the worker without its knowledge, because the answer to a committed claim was
    lost."""
    leased = select(QueueEntry.recipient_id).where(IS_SENDING, QueueEntry.worker == worker)
    release_claims(transaction, worker, set(transaction.scalars(leased)) - set(known))


def renew_leases(transaction: Transaction, worker: str, ids: Collection[int]) -> None:
    """Extends the leases of the entries that this worker is still sending."""
    statement = update(QueueEntry).where(*_leased_to(worker, ids)).values(lease_time=seconds_from_now(LEASE))
    transaction.execute(statement, execution_options={"synchronize_session": False})


def _leased_to(worker: str, ids: Collection[int]) -> tuple[ColumnElement[bool], ...]:
    return in_json(QueueEntry.recipient_id, ids), QueueEntry.state == SENDING, QueueEntry.worker == worker


def has_due(session: Session, due: DueAccounts | None = None) -> bool:
    """Whether any recipient is due; `due` is the process's memory between its looks."""
    due = due or DueAccounts()
    return due.look(session) or due.has_any(session)
