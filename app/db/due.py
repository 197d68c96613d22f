"""What is due in a queue: a table whose entries several processes take when their times have come, evenly over the
accounts, and the oldest of each account first.

A look at all skips through the partial index from one account to the next, so it costs the same for a thousand waiting
entries as for a million. But what was taken stays in the index until no snapshot held anywhere can see it as it was (a
backup, a long report), and such a look reads past all of it. So a process remembers what it has found, and between two
such looks it reads only what has become ready since the last one
(docs/decisions/015-send-queue-apart.md#a-snapshot-held-elsewhere).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    ScalarSelect,
    Select,
    String,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

from app.clock import now
from app.db.bulk import given_rows, stored_time
from app.db.expressions import is_postgresql
from app.db.prepared import PreparedStatement
from app.db.types import BigId, UtcDateTime

MOMENT, SINCE = bindparam("moment", type_=UtcDateTime()), bindparam("since", type_=UtcDateTime())


class Position(NamedTuple):
    """A place in the order of an account's entries of one priority."""

    due_time: datetime
    entry_id: int = 0


Positions = Mapping[str, Position]
"""Priority -> where its due entries begin; a priority without any is missing."""
Taken = tuple[int, str, tuple[datetime, int]]
"""Account, priority and place of an entry that was taken."""


class Reach(NamedTuple):
    """How far a look reaches back before the last one."""

    near: timedelta
    """The usual reach: an entry is committed a moment after the time that is written to it."""
    far: timedelta
    """The reach of every look after `far_every`, for slower commits and differing clocks."""
    far_every: timedelta


@dataclass(eq=False)
class Queue:
    """A table with the columns `account_id`, `state` and `due_time`, whose entries wait in one state.

    Values are written into the statements, not bound: with a parameter in the place of the state neither database would
    use the partial index.
    """

    model: Any
    entry_id: str
    """The column that orders entries with the same due time."""
    waiting: ColumnElement[str]
    """The state in which entries wait."""
    priorities: Mapping[str, ColumnElement[str] | None]
    """The values of the column `priority`; a queue without that column has one, None."""
    ready_time: str
    """The column with the time from which an entry may be taken."""
    reach: Reach
    is_ready: tuple[ColumnElement[bool], ...] = ()
    """Further conditions of the index on that time."""

    def given(self, *, on_postgresql: bool) -> FromClause:
        """The accounts of the parameter `accounts` with their positions, as a table."""
        types: dict[str, Any] = {"account_id": BigId}
        for priority in self.priorities:
            types |= {f"{priority}_due": UtcDateTime(), f"{priority}_id": BigId}
        return given_rows("accounts", types, on_postgresql=on_postgresql)

    def entries(self, entry: Any, account_id: ColumnElement[int], priority: str) -> tuple[ColumnElement[bool], ...]:
        """Conditions on entries: waiting, of that account and that priority."""
        value = self.priorities[priority]
        is_waiting = entry.state == self.waiting, entry.account_id == account_id
        return is_waiting if value is None else (*is_waiting, entry.priority == value)

    def oldest(self, given: FromClause, priority: str, *names: str) -> Select[Any]:
        """The named columns of an account's due entries of a priority that are not before the given position, in their
        order. An account that has no position is not read for that priority."""
        entry = aliased(self.model)
        place = entry.due_time, getattr(entry, self.entry_id)
        not_before = tuple_(*place) >= tuple_(given.c[f"{priority}_due"], given.c[f"{priority}_id"])
        due = *self.entries(entry, given.c.account_id, priority), entry.due_time <= MOMENT, not_before
        return select(*(getattr(entry, name) for name in names)).where(*due).order_by(*place).correlate(given)

    def has_due(self, given: FromClause) -> ColumnElement[bool]:
        """The condition on given accounts that they have due entries at or after their positions."""
        return or_(*(first.is_not(None) for first in self.firsts(given)))

    def firsts(self, given: FromClause) -> list[ScalarSelect[Any]]:
        """The due time of the first of these, for each priority. Not EXISTS, which PostgreSQL may answer by reading all
        due entries into a table of hashes."""
        return [self.oldest(given, priority, "due_time").limit(1).scalar_subquery() for priority in self.priorities]


def as_json(accounts: Mapping[int, Positions]) -> str:
    """The value of the parameter `accounts`."""
    return orjson.dumps([_given(account_id, positions) for account_id, positions in accounts.items()]).decode()


def _given(account_id: int, positions: Positions) -> dict[str, int | str]:
    given: dict[str, int | str] = {"account_id": account_id}
    for priority, position in positions.items():
        given[f"{priority}_due"] = stored_time(position.due_time)
        given[f"{priority}_id"] = position.entry_id
    return given


def look_at_all(queue: Queue, session: Session, moment: datetime) -> dict[int, Positions]:
    """The accounts that have entries due at that moment, each with the positions at which they begin."""
    return _positions(queue, _all_accounts(queue).tuples(session, moment=moment), moment)


def look_at_ready(queue: Queue, session: Session, since: datetime, moment: datetime) -> dict[int, Positions]:
    """The accounts with entries that became ready between the two moments, each with the positions at which they
    begin."""
    positions: dict[int, dict[str, Position]] = {}
    for account_id, priority, first in _ready(queue).tuples(session, since=since, moment=moment):
        positions.setdefault(account_id, {})[priority] = Position(first)
    return {**positions}


def still_due(
    queue: Queue, session: Session, accounts: Mapping[int, Positions], moment: datetime
) -> dict[int, Positions]:
    """The accounts that have due entries at or behind their positions, with the positions of the first."""
    statement = _still_due(queue, on_postgresql=is_postgresql(session))
    return _positions(queue, statement.tuples(session, moment=moment, accounts=as_json(accounts)), moment)


def _positions(queue: Queue, rows: Iterable[Any], moment: datetime) -> dict[int, Positions]:
    by_account: dict[int, Positions] = {}
    for account_id, *firsts in rows:
        each = zip(queue.priorities, firsts, strict=True)
        if positions := {name: Position(first) for name, first in each if first is not None and first <= moment}:
            by_account[account_id] = positions
    return by_account


@cache
def _all_accounts(queue: Queue) -> PreparedStatement:
    """The first due time of each priority, for every account that has due entries."""
    waiting = _waiting_accounts(queue).c.account_id
    firsts = [_first(queue, waiting, priority).label(f"{priority}_due") for priority in queue.priorities]
    # Without the word PostgreSQL would compute each first one twice.
    first_times = select(waiting, *firsts).cte("firsts").prefix_with("MATERIALIZED", dialect="postgresql")
    _, *times = first_times.c
    return PreparedStatement(select(first_times).where(or_(*(first <= MOMENT for first in times))))


def _first(queue: Queue, account_id: ColumnElement[int], priority: str) -> ScalarSelect[Any]:
    """With this order PostgreSQL uses the index that begins with the account. For the least time alone it may take one
    on the time, and read past the entries of all other accounts."""
    entry = aliased(queue.model)
    first = select(entry.due_time).where(*queue.entries(entry, account_id, priority))
    return first.order_by(entry.due_time, getattr(entry, queue.entry_id)).limit(1).scalar_subquery()


def _waiting_accounts(queue: Queue) -> CTE:
    """Every account that has waiting entries; the last step of the recursion adds a null, which equals nothing."""
    entry, further = queue.model, aliased(queue.model, name="further")
    first = select(func.min(entry.account_id).label("account_id")).where(entry.state == queue.waiting)
    waiting = first.cte("waiting", recursive=True)
    beyond = further.state == queue.waiting, further.account_id > waiting.c.account_id
    following = select(func.min(further.account_id)).where(*beyond).scalar_subquery()
    return waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))


@cache
def _ready(queue: Queue) -> PreparedStatement:
    """What is ready is due. With this order PostgreSQL can only use the index on that time, even if it has analyzed the
    table while it was empty and considers all indexes equal."""
    entry = queue.model
    time_column = getattr(entry, queue.ready_time)
    (name, value), *_ = queue.priorities.items()
    priority = literal_column(f"'{name}'", String) if value is None else entry.priority
    is_ready = entry.state == queue.waiting, *queue.is_ready, time_column.between(SINCE, MOMENT)
    in_order = select(entry.account_id, priority.label("priority"), entry.due_time).where(*is_ready)
    ready = in_order.order_by(time_column).subquery("ready").c
    account = ready.account_id, ready.priority
    return PreparedStatement(select(*account, func.min(ready.due_time)).group_by(*account))


@cache
def _still_due(queue: Queue, *, on_postgresql: bool) -> PreparedStatement:
    given = queue.given(on_postgresql=on_postgresql)
    return PreparedStatement(select(given.c.account_id, *queue.firsts(given)))


FULL_SHARE = 0.01
"""Share of the time that looks at all may take."""


class FullLooks:
    """Repeats full looks rarely enough that they take that share of the time: a quick one soon."""

    def __init__(self, share: float = FULL_SHARE) -> None:
        self._share = share
        self._due = 0.0

    def is_due(self) -> bool:
        """Whether the next look may be a full one; the first one is."""
        return time.monotonic() >= self._due

    def note(self, began: float) -> None:
        """Records a full look that has ended, with its start on the monotonic clock."""
        ended = time.monotonic()
        self._due = ended + (ended - began) * (1 / self._share - 1)

    def renew(self) -> None:
        """Makes the next look a full one."""
        self._due = 0.0


ACCOUNTS_PER_PROBE = 100
"""Accounts that one statement looks at."""
NEWCOMER_ENTRIES = 4
"""Entries of a newcomer that go before the turn of its account: more than the one message that somebody waits for, so
that it is known when an account with one has nothing more, and is a newcomer with its next."""


class DueAccounts:
    """The accounts with due entries of a queue, as a process remembers them; one thread at a time uses it.

    `full_share` is 1 for one that forgets: then every look is at the whole queue.
    """

    def __init__(self, queue: Queue, full_share: float = FULL_SHARE) -> None:
        self._queue = queue
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
            due = look_at_all(self._queue, session, moment)
            self._full_looks.note(began)
            self._note_newcomers(due if self._positions else ())
            self._positions = {account_id: dict(positions) for account_id, positions in due.items()}
            self._newcomers = {account_id: None for account_id in self._newcomers if account_id in due}
            self._looked_far = moment
        else:
            due = look_at_ready(self._queue, session, self._since(moment), moment)
            self._note_newcomers(due)
            self._add(due)
        self._looked = moment
        return bool(due)

    def has_any(self, session: Session) -> bool:
        """Whether anything that was found is still due: other processes may have taken it."""
        while self._positions:
            probed = dict(islice(self._positions.items(), ACCOUNTS_PER_PROBE))
            due = still_due(self._queue, session, probed, now())
            self._forget_accounts(probed.keys() - due.keys())
            for account_id, positions in due.items():
                # Behind the others, which are probed the next time.
                noted = self._positions.pop(account_id)
                self._positions[account_id] = {name: max(first, noted[name]) for name, first in positions.items()}
            if due:
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of what was found."""
        return not self._positions

    @property
    def begin(self) -> datetime:
        """The time before which no entry that is due has become ready, as far as is known after a look."""
        firsts = (position.due_time for positions in self._positions.values() for position in positions.values())
        return min([self._looked - self._queue.reach.far, *firsts])

    def next_accounts(self, after: int, count: int) -> dict[int, Positions]:
        """At most that many accounts with due entries: those after the account `after`, then from the first one on."""
        in_turn = sorted(self._positions, key=lambda account_id: (account_id <= after, account_id))[:count]
        self.last_account = in_turn[-1] if in_turn else after
        return {account_id: self._positions[account_id] for account_id in in_turn}

    def newcomers(self, size: int) -> dict[int, Positions]:
        """Accounts of which a claim of this size takes entries before those in turn, where these are more than it can
        serve: the latest that had nothing due before."""
        if len(self._positions) <= size:
            return {}
        latest = list(islice(reversed(self._newcomers), max(1, size // (2 * NEWCOMER_ENTRIES))))
        return {account_id: self._positions[account_id] for account_id in latest}

    def note_taken(self, accounts: Collection[int], part: int, taken: Iterable[Taken]) -> None:
        """Records the positions of the accounts after so many entries of each were asked for; one that gave less has
        nothing more."""
        by_account: dict[int, list[Taken]] = {account_id: [] for account_id in accounts}
        for entry in taken:
            # An entry that was moved to another account by hand must not stop the work of all others.
            if entry[0] in by_account:
                by_account[entry[0]].append(entry)
        for account_id, entries in by_account.items():
            self._newcomers.pop(account_id, None)
            if len(entries) < part:
                self._positions.pop(account_id, None)
                continue
            positions = self._positions[account_id]
            for priority in {entry[1] for entry in entries}:
                last = Position(*max(entry[2] for entry in entries if entry[1] == priority))
                positions[priority] = max(positions[priority], last)

    def clear(self) -> None:
        """Makes the next look a full one: what was taken was rolled back, or it is unknown whether it was, or entries
        are due since a time that is over."""
        self._positions = {}
        self._newcomers = {}
        self._full_looks.renew()

    def _since(self, moment: datetime) -> datetime:
        reach = self._queue.reach
        if moment < self._looked_far + reach.far_every:
            return self._looked - reach.near
        self._looked_far = moment
        return self._looked - reach.far

    def _note_newcomers(self, account_ids: Iterable[int]) -> None:
        self._newcomers |= dict.fromkeys(account_id for account_id in account_ids if account_id not in self._positions)

    def _add(self, due: Mapping[int, Positions]) -> None:
        for account_id, positions in due.items():
            noted = self._positions.setdefault(account_id, {})
            for priority, position in positions.items():
                noted[priority] = min(noted.get(priority, position), position)

    def _forget_accounts(self, accounts: Iterable[int]) -> None:
        for account_id in accounts:
            self._positions.pop(account_id, None)
            self._newcomers.pop(account_id, None)
