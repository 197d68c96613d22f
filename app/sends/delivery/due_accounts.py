"""The memory of a process of the send queue: the accounts with due entries, and where these begin.

A look at the whole queue finds everything, but on PostgreSQL it reads past all entries that have been claimed since the
oldest snapshot that is held anywhere: a backup makes it slower with every message. So it is made whenever it is quick,
and takes at most `FULL_SHARE` of the time. In between, the process knows from its own claims how far each account is,
and reads what has become ready since its last look. Entries say when they did (`ready_time`), so whatever is accepted,
released, deferred or recovered is found by the next look of every process, whichever wrote it. An entry is seen only
when its transaction commits, so a look reaches back a little before the last one, and now and then further.

The memory only determines where to look; entries are claimed under their locks. The reasons are in
docs/decisions/015-send-queue-apart.md.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy.orm import Session

from app.clock import now
from app.db.full_looks import FULL_SHARE, FullLooks
from app.db.queue import ClaimedRow
from app.db.queue_looks import Position, Positions, look_at_all, look_at_ready, still_due

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

    def note_claimed(self, served: Collection[int], size: int, rows: Iterable[ClaimedRow]) -> None:
        """Records the positions of the accounts after a claim of that size; one that gave less than its part has
        nothing more."""
        claimed: dict[int, list[ClaimedRow]] = {account_id: [] for account_id in served}
        for row in rows:
            # A recipient that was moved to another account by hand must not stop the sending of all others.
            if row.recipient[1] in claimed:
                claimed[row.recipient[1]].append(row)
        part = max(1, size // max(1, len(served)))
        for account_id, own in claimed.items():
            self._newcomers.pop(account_id, None)
            if len(own) < part:
                self._positions.pop(account_id, None)
                continue
            for row in own:
                place = Position(row.due_time, row.recipient[0])
                positions = self._positions[account_id]
                positions[row.priority] = max(positions[row.priority], place)

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
