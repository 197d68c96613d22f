"""The memory of a process of the accounts with due runs, and where these begin.

A look at all runs finds everything, but on PostgreSQL it reads past all that have been advanced since the oldest
snapshot that is held anywhere. So it is made whenever it is quick, and takes at most `FULL_SHARE` of the time. In
between, the process knows how far each account is, and reads what has fallen due since its last look: a run falls due
when its due time passes, or is given the time of the transaction that makes it due. It is seen only when that commits,
so a look reaches back a little before the last one, and now and then further.

The memory only determines where to look; runs are advanced under their locks
(docs/decisions/021-automations-without-leases.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice

from sqlalchemy.orm import Session

from app.clock import now
from app.db.queue import FULL_SHARE, FullLooks
from app.db.run_queue import LockedRun, Position, look_at_all, look_at_newly_due, still_due

REACH = timedelta(seconds=2)
"""A look reaches back this far before the last one: a chunk commits a moment after the time that it writes."""
FAR_REACH = timedelta(seconds=30)
"""Every `FAR_EVERY` a look reaches back this far, for slower commits and differing clocks."""
FAR_EVERY = timedelta(seconds=2)
PROBED = 100
"""Accounts that one statement looks at."""


class DueRuns:
    """One per process that looks for due runs; one thread at a time uses it.

    `full_share` is 1 for one that forgets: then every look is at all runs.
    """

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._full_looks = FullLooks(full_share)
        self._positions: dict[int, Position] = {}
        self._looked = self._looked_far = now()

    def look(self, session: Session) -> None:
        """Finds what has fallen due."""
        moment, began = now(), time.monotonic()
        if self._full_looks.is_due():
            self._positions = look_at_all(session, moment)
            self._full_looks.note(began)
            self._looked_far = moment
        else:
            reach = REACH
            if moment >= self._looked_far + FAR_EVERY:
                self._looked_far, reach = moment, FAR_REACH
            for account_id, first in look_at_newly_due(session, self._looked - reach, moment).items():
                self._positions[account_id] = min(self._positions.get(account_id, first), first)
        self._looked = moment

    def has_any(self, session: Session) -> bool:
        """Whether anything that was found is still due: other processes may have advanced it."""
        while self._positions:
            probed = dict(islice(self._positions.items(), PROBED))
            for account_id in probed:
                self._positions.pop(account_id)
            if due := still_due(session, probed, now()):
                # Behind the others, which are probed the next time.
                self._positions |= due
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of what was found."""
        return not self._positions

    def next_accounts(self, after: int, count: int) -> dict[int, Position]:
        """At most that many accounts with due runs: those after the account `after`, then from the first one on."""
        in_turn = sorted(self._positions, key=lambda account_id: (account_id <= after, account_id))[:count]
        return {account_id: self._positions[account_id] for account_id in in_turn}

    def note_locked(self, accounts: Sequence[int], each: int, runs: Sequence[LockedRun]) -> None:
        """Records the positions of the accounts after a chunk; one that gave less than its part has nothing more."""
        for account_id in accounts:
            own = [Position(run.due_time, run.id) for run in runs if run.account_id == account_id]
            if len(own) < each:
                self._positions.pop(account_id, None)
            else:
                self._positions[account_id] = max(own)

    def clear(self) -> None:
        """Makes the next look one at all runs: a chunk was rolled back, or runs fell due at a time that is over."""
        self._positions = {}
        self._full_looks.renew()
