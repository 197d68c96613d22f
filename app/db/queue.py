"""The send queue's claim statement, which the two databases need in different forms.

Fair between accounts: the accounts that have due rows are found by skipping through the partial index from one account
to the next, a few index probes per account however many rows wait; then each account gives its oldest rows, the same
number from each. So an account with one row never waits behind another one's hundred thousand
(docs/delivery.md#fairness).
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import CTE, ColumnElement, Integer, Select, and_, any_, bindparam, func, literal_column, select, true
from sqlalchemy import update as sql_update
from sqlalchemy.orm import Session, aliased

from app.db.dialect import is_postgresql
from app.db.models import Recipient, table_of
from app.db.prepared import PreparedStatement

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
QUEUED: ColumnElement[str] = literal_column("'queued'")


MOMENT = bindparam("moment", type_=Recipient.due_time.type)
SIZE = bindparam("size", type_=Integer)
AFTER = bindparam("after", type_=Recipient.account_id.type)


def claim_due(
    session: Session,
    columns: tuple[str, ...],
    *,
    moment: datetime,
    size: int,
    after: int,
    state: str,
    worker: str,
    lease_end: datetime,
) -> list[Any]:
    """Claims about `size` rows due at `moment`, evenly from the accounts that come after the account `after`: gives
    them the state, the worker and the lease, counts the attempt, and returns these columns of them."""
    statement = _claim_statement(columns, on_postgresql=is_postgresql(session))
    return statement.tuples(
        session, moment=moment, size=size, after=after, claimed_state=state, claimer=worker, lease_end=lease_end
    )


@cache
def _claim_statement(columns: tuple[str, ...], *, on_postgresql: bool) -> PreparedStatement:
    """Built once: building it takes ten times as long as running it for a row."""
    table = table_of(Recipient)
    return PreparedStatement(
        sql_update(table)
        .where(_is_picked(table.c.id, on_postgresql=on_postgresql))
        .values(
            state=bindparam("claimed_state"),
            worker=bindparam("claimer"),
            lease_time=bindparam("lease_end", type_=table.c.lease_time.type),
            attempts=table.c.attempts + 1,
        )
        .returning(*(table.c[name] for name in columns))
    )


def _is_picked(column: Any, *, on_postgresql: bool) -> ColumnElement[bool]:
    """Whether the column contains the id of a picked row.

    On PostgreSQL an array, which leaves the planner no choice but the column's index: it expects a tenth of the table
    to be picked, and would read all of it to join with them.
    """
    ids = select(_picked_rows(on_postgresql=on_postgresql).c.id)
    picked: ColumnElement[bool] = (
        column == any_(func.array(ids.scalar_subquery())) if on_postgresql else column.in_(ids)
    )
    return picked


def _picked_rows(*, on_postgresql: bool) -> CTE:
    """Ids of about SIZE rows due at MOMENT, taken evenly from the accounts that come after the account AFTER.

    At most SIZE accounts are served. On PostgreSQL the rows are locked, and rows locked by other workers are skipped.
    SQLite has neither LATERAL nor row locks; there a transaction that claims has the only write lock.
    """
    served = _served_accounts()
    turn = aliased(Recipient, name="turn")
    share = select(SIZE // func.nullif(func.count(), 0, type_=Integer)).select_from(served).scalar_subquery()
    oldest = (
        select(turn.id)
        .where(turn.state == QUEUED, turn.account_id == served.c.account_id, turn.due_time <= MOMENT)
        .order_by(turn.due_time, turn.id)
        .limit(share)
        .correlate(served)
    )
    if on_postgresql:
        turns = oldest.with_for_update(skip_locked=True).lateral("turns")
        return select(turns.c.id).select_from(served.join(turns, true())).cte("picked")
    return select(Recipient.id).select_from(served.join(Recipient, Recipient.id.in_(oldest))).cte("picked")


@cache
def any_due() -> Select[Any]:
    """Returns a row when any recipient is due at MOMENT."""
    return select(_due_accounts().c.account_id).limit(1)


def _served_accounts() -> CTE:
    due = _due_accounts().c.account_id
    return select(due).order_by(due <= AFTER, due).limit(SIZE).cte("served")


def _due_accounts() -> CTE:
    waiting = _waiting_accounts().c.account_id
    own = aliased(Recipient, name="own")
    first_due = select(func.min(own.due_time)).where(own.state == QUEUED, own.account_id == waiting).scalar_subquery()
    return select(waiting).where(first_due <= MOMENT).cte("due")


def _waiting_accounts() -> CTE:
    """Every account that has queued rows; the last step of the recursion adds a null, which no comparison accepts."""
    first = select(func.min(Recipient.account_id).label("account_id")).where(Recipient.state == QUEUED)
    waiting = first.cte("waiting", recursive=True)
    further = aliased(Recipient, name="further")
    beyond: ColumnElement[bool] = and_(further.state == QUEUED, further.account_id > waiting.c.account_id)
    following = select(func.min(further.account_id)).where(beyond).scalar_subquery()
    return waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))
