"""Picking due recipients: the statement of the send queue that the two databases have to write differently.

Turns go round. The accounts that have due rows are found by hopping through the partial index from one account to the
next, a few index probes per account however many rows wait; then each account gives its oldest rows, the same number
from each. So an account with one row never stands behind another one's hundred thousand (design: 2).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, ColumnElement, Integer, Select, and_, any_, bindparam, func, literal_column, select, true
from sqlalchemy.orm import aliased

from app.db.models import Recipient

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
QUEUED: ColumnElement[str] = literal_column("'queued'")


MOMENT = bindparam("moment", type_=Recipient.due_time.type)
SIZE = bindparam("size", type_=Integer)
AFTER = bindparam("after", type_=Recipient.account_id.type)


def is_picked(column: Any, *, postgresql: bool) -> ColumnElement[bool]:
    """Whether the column holds the id of a picked row.

    On PostgreSQL an array, which leaves it no choice but the column's index: it expects a tenth of the table to be
    picked, and would read all of it to join with them.
    """
    ids = select(picked_rows(postgresql=postgresql).c.id)
    found: ColumnElement[bool] = column == any_(func.array(ids.scalar_subquery())) if postgresql else column.in_(ids)
    return found


def picked_rows(*, postgresql: bool) -> CTE:
    """Ids of about SIZE rows due at MOMENT, taken evenly from the accounts that come after the account AFTER.

    At most SIZE accounts are served. On PostgreSQL the rows are locked, and those that others have locked are
    passed over. SQLite knows neither LATERAL nor row locks; there a transaction that picks holds the only write lock.
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
    if postgresql:
        turns = oldest.with_for_update(skip_locked=True).lateral("turns")
        return select(turns.c.id).select_from(served.join(turns, true())).cte("picked")
    return select(Recipient.id).select_from(served.join(Recipient, Recipient.id.in_(oldest))).cte("picked")


def any_due() -> Select[Any]:
    """Gives a row when any recipient is due at MOMENT."""
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
    """Every account that has queued rows; the last step of the hopping adds a null, which no comparison lets pass."""
    first = select(func.min(Recipient.account_id).label("account_id")).where(Recipient.state == QUEUED)
    waiting = first.cte("waiting", recursive=True)
    further = aliased(Recipient, name="further")
    beyond: ColumnElement[bool] = and_(further.state == QUEUED, further.account_id > waiting.c.account_id)
    following = select(func.min(further.account_id)).where(beyond).scalar_subquery()
    return waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))
