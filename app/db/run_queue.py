"""Due runs of automations: which accounts have some, and locking a chunk of them evenly.

A look skips through the partial index from one account to the next, so it costs the same for a thousand waiting runs as
for a million. What is locked stays as it is until its transaction ends; others skip it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Integer, Select, String, and_, bindparam, func, literal_column, select, true
from sqlalchemy.orm import Session, aliased

from app.db.dialect import is_postgresql
from app.db.in_json import in_json, json_array
from app.db.models import Account, AutomationRun
from app.db.prepared import PreparedStatement

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
WAITING: ColumnElement[str] = literal_column("'waiting'")
MOMENT = bindparam("moment", type_=AutomationRun.due_time.type)
EACH = bindparam("each", type_=Integer)
ACCOUNTS = bindparam("accounts", type_=String)


CHUNK = 500
"""Runs of one transaction."""
CHUNK_ON_SQLITE = 100
"""The same where nobody else can write meanwhile."""


def chunk_size(session: Session) -> int:
    """How many runs a transaction takes."""
    return CHUNK if is_postgresql(session) else CHUNK_ON_SQLITE


def next_due_time(session: Session) -> datetime | None:
    """When the next waiting run is due, or was."""
    found: datetime | None = _NEXT.row(session)[0]
    return found


def accounts_with_due_runs(session: Session, moment: datetime) -> list[int]:
    """The accounts that have runs due at that moment, in the order of their ids."""
    return sorted(row[0] for row in _accounts().tuples(session, moment=moment) if row[0] is not None)


def lock_due_runs(session: Session, accounts: Collection[int], moment: datetime, each: int) -> list[int]:
    """The ids of the oldest due runs of these accounts, at most so many of each, which stay locked until the end of the
    transaction; those that others have locked are left out."""
    statement = _due(on_postgresql=is_postgresql(session))
    rows = statement.tuples(session, accounts=json_array(accounts), moment=moment, each=each)
    return [row[0] for row in rows]


_NEXT = PreparedStatement(select(func.min(AutomationRun.due_time)).where(AutomationRun.state == WAITING))


@cache
def _accounts() -> PreparedStatement:
    """Every account that has waiting runs, with the first due time; the last step of the recursion adds a null."""
    first = select(func.min(AutomationRun.account_id).label("account_id")).where(AutomationRun.state == WAITING)
    waiting = first.cte("waiting_accounts", recursive=True)
    further = aliased(AutomationRun, name="further")
    beyond = and_(further.state == WAITING, further.account_id > waiting.c.account_id)
    following = select(func.min(further.account_id)).where(beyond).scalar_subquery()
    waiting = waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))
    own = aliased(AutomationRun, name="own")
    first_due = select(func.min(own.due_time)).where(own.state == WAITING, own.account_id == waiting.c.account_id)
    return PreparedStatement(select(waiting.c.account_id).where(first_due.scalar_subquery() <= MOMENT))


@cache
def _due(*, on_postgresql: bool) -> PreparedStatement:
    """SQLite has neither LATERAL nor row locks; there a transaction that writes has the only write lock."""
    served = select(Account.id).where(in_json(Account.id, ACCOUNTS)).cte("served")
    oldest = _oldest(served.c.id).correlate(served)
    if on_postgresql:
        turns = oldest.with_for_update(skip_locked=True).lateral("turns")
        return PreparedStatement(select(turns.c.id).select_from(served.join(turns, true())))
    run = aliased(AutomationRun, name="run")
    return PreparedStatement(select(run.id).select_from(served.join(run, run.id.in_(oldest))))


def _oldest(account_id: ColumnElement[int]) -> Select[int]:
    own = aliased(AutomationRun, name="oldest")
    due = own.state == WAITING, own.account_id == account_id, own.due_time <= MOMENT
    return select(own.id).where(*due).order_by(own.due_time, own.id).limit(EACH)
