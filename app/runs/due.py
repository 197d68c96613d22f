"""Due runs: which accounts have some, and what is loaded of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.automations.run_states import IS_WAITING
from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json, json_array
from app.db.models import Account, Automation, AutomationRun
from app.db.prepared import PreparedStatement
from app.db.queue import FULL_SHARE, FullLooks
from app.db.run_queue import LockedRun, Position, look_at_all, look_at_newly_due, still_due


class DueRun(NamedTuple):
    """A run that is due and locked, with its automation and account."""

    id: int
    account_id: int
    automation_id: int
    version_id: int
    list_id: int
    contact_id: int
    entry_key: int
    trigger_time: datetime
    step: str
    step_time: datetime | None
    due_time: datetime
    attempts: int
    skips_next: bool
    shifted_seconds: int
    watched_step: int | None
    watched_event: str | None
    automation_state: str
    automation_shifted_seconds: int
    time_zone: str
    """Of the account, like the next two."""
    is_test: bool
    has_digests: bool


_OF_OTHERS: dict[str, Any] = {
    "automation_state": Automation.state,
    "automation_shifted_seconds": Automation.shifted_seconds,
    "time_zone": Account.time_zone,
    "is_test": Account.test_of.is_not(None),
    "has_digests": Account.has_digests,
}
_COLUMNS = [
    (_OF_OTHERS[name] if name in _OF_OTHERS else getattr(AutomationRun, name)).label(name) for name in DueRun._fields
]

RUNS = PreparedStatement(
    select(*_COLUMNS)
    .join(Automation, Automation.id == AutomationRun.automation_id)
    .join(Account, Account.id == AutomationRun.account_id)
    .where(in_json(AutomationRun.id, bindparam("ids", type_=String)))
    .order_by(AutomationRun.due_time, AutomationRun.id)
    .with_for_update(read=True, of=Automation, skip_locked=True)
)
"""Nobody pauses, resumes or changes the automations before the end of the transaction. Runs of one that is being
changed now are left out: who changes it waits for runs."""


def read_runs(transaction: Transaction, ids: Collection[int]) -> list[DueRun]:
    """The runs with these ids, which are locked; those that have been due for longest first."""
    return [DueRun._make(row) for row in RUNS.tuples(transaction, ids=json_array(ids))]


def lock_again(transaction: Transaction, ids: Collection[int], moment: datetime) -> list[int]:
    """Those of the runs that are due still and that nobody else has locked."""
    run = AutomationRun
    statement = select(run.id).where(in_json(run.id, ids), IS_WAITING, run.due_time <= moment)
    return list(transaction.scalars(statement.order_by(run.id).with_for_update(skip_locked=True)))


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
