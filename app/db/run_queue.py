"""Due runs of automations: which accounts have some and where these begin, and locking a chunk of them evenly.

A look at all skips through the partial index from one account to the next, so it costs the same for a thousand waiting
runs as for a million. But runs that were advanced stay in the index until no snapshot held anywhere can see them as
they were (a backup, a long report), and such a look reads past all of them. So a process remembers what it has found
(`app/runs/due.py`), and between two such looks it reads only the runs that have fallen due since the last one.

What is locked stays as it is until its transaction ends; others skip it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

from app.db.bulk import given_rows, stored_time
from app.db.dialect import is_postgresql
from app.db.models import AutomationRun
from app.db.prepared import PreparedStatement

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
WAITING: ColumnElement[str] = literal_column("'waiting'")
MOMENT = bindparam("moment", type_=AutomationRun.due_time.type)
SINCE = bindparam("since", type_=AutomationRun.due_time.type)
EACH = bindparam("each", type_=Integer)


CHUNK = 500
"""Runs of one transaction."""
CHUNK_ON_SQLITE = 100
"""The same where nobody else can write meanwhile."""


class Position(NamedTuple):
    """A place in the order of an account's runs."""

    due_time: datetime
    run_id: int = 0


Positions = Mapping[int, Position]
"""Account -> where its due runs begin."""


class LockedRun(NamedTuple):
    """A due run that this transaction has locked."""

    id: int
    account_id: int
    due_time: datetime


def chunk_size(session: Session) -> int:
    """How many runs a transaction takes."""
    return CHUNK if is_postgresql(session) else CHUNK_ON_SQLITE


def look_at_all(session: Session, moment: datetime) -> dict[int, Position]:
    """The accounts that have runs due at that moment, with the positions at which they begin."""
    rows = _all_accounts().tuples(session, moment=moment)
    return {account_id: Position(first) for account_id, first in rows if account_id is not None}


def look_at_newly_due(session: Session, since: datetime, moment: datetime) -> dict[int, Position]:
    """The same for runs that fell due between the two moments."""
    rows = _newly_due().tuples(session, since=since, moment=moment)
    return {account_id: Position(first) for account_id, first in rows}


def still_due(session: Session, positions: Positions, moment: datetime) -> dict[int, Position]:
    """Those of the accounts that have due runs at or behind their positions, with the positions of the first."""
    statement = _still_due(on_postgresql=is_postgresql(session))
    rows = statement.tuples(session, given=_as_json(positions), moment=moment)
    return {account_id: Position(due_time, run_id) for account_id, due_time, run_id in rows}


def lock_due_runs(session: Session, positions: Positions, moment: datetime, each: int) -> list[LockedRun]:
    """The oldest due runs of these accounts, not before their positions and at most so many of each, which stay locked
    until the end of the transaction; those that others have locked are left out."""
    statement = _due(on_postgresql=is_postgresql(session))
    rows = statement.tuples(session, given=_as_json(positions), moment=moment, each=each)
    return [LockedRun._make(row) for row in rows]


@cache
def _all_accounts() -> PreparedStatement:
    """Every account that has waiting runs, with the first due time; the last step of the recursion adds a null."""
    first = select(func.min(AutomationRun.account_id).label("account_id")).where(AutomationRun.state == WAITING)
    waiting = first.cte("waiting_accounts", recursive=True)
    further = aliased(AutomationRun, name="further")
    beyond = and_(further.state == WAITING, further.account_id > waiting.c.account_id)
    following = select(func.min(further.account_id)).where(beyond).scalar_subquery()
    waiting = waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))
    own = aliased(AutomationRun, name="own")
    first_due = select(func.min(own.due_time)).where(own.state == WAITING, own.account_id == waiting.c.account_id)
    firsts = select(waiting.c.account_id, first_due.scalar_subquery().label("first_due")).subquery("firsts")
    return PreparedStatement(select(firsts.c.account_id, firsts.c.first_due).where(firsts.c.first_due <= MOMENT))


@cache
def _newly_due() -> PreparedStatement:
    """In the order of the index on due times, which PostgreSQL otherwise might not use."""
    run = AutomationRun
    is_new = and_(run.state == WAITING, run.due_time.between(SINCE, MOMENT))
    new = select(run.account_id, run.due_time).where(is_new).order_by(run.due_time).subquery("new")
    return PreparedStatement(select(new.c.account_id, func.min(new.c.due_time)).group_by(new.c.account_id))


@cache
def _still_due(*, on_postgresql: bool) -> PreparedStatement:
    given, run = _given(on_postgresql=on_postgresql), aliased(AutomationRun, name="run")
    first = _oldest(given, aliased(AutomationRun, name="oldest")).limit(1)
    oldest = first.correlate(given).scalar_subquery()
    return PreparedStatement(select(run.account_id, run.due_time, run.id).join_from(given, run, run.id == oldest))


@cache
def _due(*, on_postgresql: bool) -> PreparedStatement:
    """SQLite has neither LATERAL nor row locks; there a transaction that writes has the only write lock."""
    given = _given(on_postgresql=on_postgresql)
    run = aliased(AutomationRun, name="run")
    columns = run.id, run.account_id, run.due_time
    if on_postgresql:
        locked = _oldest(given, run).with_only_columns(*columns).limit(EACH).with_for_update(skip_locked=True)
        turns = locked.correlate(given).lateral("turns")
        return PreparedStatement(
            select(turns.c.id, turns.c.account_id, turns.c.due_time).select_from(given.join(turns, true()))
        )
    oldest = _oldest(given, aliased(AutomationRun, name="oldest")).limit(EACH).correlate(given)
    return PreparedStatement(select(*columns).select_from(given.join(run, run.id.in_(oldest))))


def _oldest(given: FromClause, run: Any) -> Select[int]:
    is_due = run.state == WAITING, run.account_id == given.c.account_id, run.due_time <= MOMENT
    not_before = tuple_(run.due_time, run.id) >= tuple_(given.c.due_time, given.c.run_id)
    return select(run.id).where(*is_due, not_before).order_by(run.due_time, run.id)


def _as_json(positions: Positions) -> str:
    """The value of the parameter `given`."""
    return orjson.dumps(
        [
            {"account_id": account_id, "due_time": stored_time(due_time), "run_id": run_id}
            for account_id, (due_time, run_id) in positions.items()
        ]
    ).decode()


def _given(*, on_postgresql: bool) -> FromClause:
    """The positions of the parameter `given`, as a table."""
    run = AutomationRun
    types = {"account_id": run.account_id.type, "due_time": run.due_time.type, "run_id": run.id.type}
    return given_rows("given", types, on_postgresql=on_postgresql)
