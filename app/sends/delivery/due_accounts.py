"""What a process remembers of the send queue: the accounts with due entries, and where these begin.

A look at the whole queue finds everything, but on PostgreSQL it reads past all entries that have been claimed since the
oldest snapshot that is held anywhere: a backup makes it slower with every message. So it is made whenever it is quick,
and takes `FULL_SHARE` of the time at most. In between, the process knows from its own claims how far each account is,
and reads what has become ready since its last look. Entries say when they did (`ready_time`), so whatever is accepted,
released, deferred or recovered is found by the next look of every process, whichever wrote it. An entry is seen only
when its transaction commits, so a look reaches back a little before the last one, and now and then further.

What is remembered only says where to look; entries are claimed under their locks. The reasons are in
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
"""A look reaches back so far before the last one: acceptance takes a moment from the time it notes to its commit."""
FAR_REACH = timedelta(seconds=15)
"""Every `FAR_EVERY` a look reaches back so far, for what took longer, and for clocks that differ."""
FAR_EVERY = timedelta(seconds=1)
PROBED = 100
"""Accounts that one statement looks at."""


class DueAccounts:
    """One per process that looks for due entries; one thread at a time uses it.

    `full_share` is 1 for one that forgets: then every look is at the whole queue.
    """

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._full_looks = FullLooks(full_share)
        self._positions: dict[int, dict[str, Position]] = {}
        self._looked = self._looked_far = now()

    def look(self, session: Session) -> bool:
        """Finds what has become due; False when nothing new has, which leaves what was known before."""
        moment, began = now(), time.monotonic()
        if self._full_looks.is_due():
            found = look_at_all(session, moment)
            self._full_looks.note(began)
            self._positions = {account_id: dict(positions) for account_id, positions in found.items()}
            self._looked_far = moment
        else:
            found = look_at_ready(session, self._since(moment), moment)
            self._add(found)
        self._looked = moment
        return bool(found)

    def has_any(self, session: Session) -> bool:
        """Whether anything that was found is due still: others may have claimed it."""
        while self._positions:
            probed = dict(islice(self._positions.items(), PROBED))
            due = still_due(session, probed, now())
            if due:
                return True
            self._forget_accounts(probed)
        return False

    def next_accounts(self, after: int, count: int) -> dict[int, Positions]:
        """At most so many accounts with due entries: those that come after the account `after`, then from the first."""
        in_turn = sorted(self._positions, key=lambda account_id: (account_id <= after, account_id))
        return {account_id: self._positions[account_id] for account_id in in_turn[:count]}

    def note_claimed(self, served: Collection[int], size: int, rows: Iterable[ClaimedRow]) -> None:
        """Remembers how far the accounts are after a claim of that size; one that gave less than its part has nothing
        more."""
        claimed: dict[int, list[ClaimedRow]] = {account_id: [] for account_id in served}
        for row in rows:
            # A recipient that was given to another account by hand must not end the sending of all others.
            if row.recipient[1] in claimed:
                claimed[row.recipient[1]].append(row)
        part = max(1, size // max(1, len(served)))
        for account_id, own in claimed.items():
            if len(own) < part:
                self._positions.pop(account_id, None)
                continue
            for row in own:
                place = Position(row.due_time, row.recipient[0])
                positions = self._positions[account_id]
                positions[row.priority] = max(positions[row.priority], place)

    def clear(self) -> None:
        """The next look is at the whole queue: a claim was undone, or it is unknown whether it was."""
        self._positions = {}
        self._full_looks.renew()

    def _since(self, moment: datetime) -> datetime:
        if moment < self._looked_far + FAR_EVERY:
            return self._looked - REACH
        self._looked_far = moment
        return moment - max(FAR_REACH, moment - self._looked + REACH)

    def _add(self, found: Mapping[int, Positions]) -> None:
        for account_id, positions in found.items():
            known = self._positions.setdefault(account_id, {})
            for priority, position in positions.items():
                known[priority] = min(known.get(priority, position), position)

    def _forget_accounts(self, accounts: Iterable[int]) -> None:
        for account_id in accounts:
            self._positions.pop(account_id, None)
