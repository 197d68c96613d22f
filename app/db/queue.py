"""The queues: claiming due messages, and locking due runs of automations, in the forms that the two databases need."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    String,
    any_,
    bindparam,
    case,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy import update as sql_update
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.due import Positions, Queue, Reach, as_json
from app.db.expressions import in_json, is_postgresql, json_array
from app.db.models import AutomationRun, QueueEntry, Recipient, table_of
from app.db.prepared import PreparedStatement

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
QUEUED: ColumnElement[str] = literal_column("'queued'")
NOT_NEGATIVE: ColumnElement[bool] = literal_column("send_queue.attempts >= 0")
HIGH, NORMAL = literal_column("'high'", String), literal_column("'normal'", String)
PRIORITIES: dict[str, ColumnElement[str] | None] = {"high": HIGH, "normal": NORMAL}

SEND_QUEUE = Queue(
    QueueEntry,
    entry_id="recipient_id",
    waiting=QUEUED,
    priorities=PRIORITIES,
    ready_time="ready_time",
    is_ready=(NOT_NEGATIVE,),
    reach=Reach(near=timedelta(seconds=0.3), far=timedelta(seconds=15), far_every=timedelta(seconds=1)),
)

NORMAL_PART = 4
"""One in so many entries of an account's turn is of normal priority, while any waits."""

SIZE = bindparam("size", type_=Integer)
TURN = bindparam("turn", type_=Integer)

RECIPIENT_COLUMNS = (
    "id",
    "account_id",
    "uuid",
    "send_id",
    "list_id",
    "contact_id",
    "type",
    "email",
    "mobile",
    "values",
    "reason",
)
"""Columns of a recipient that a claim returns."""
ENTRY_COLUMNS = "attempts", "due_time", "priority"
"""Columns of its entry in the queue that follow them."""


def claim_due(
    session: Session,
    *,
    moment: datetime,
    accounts: Mapping[int, Positions],
    size: int,
    number: int,
    state: str,
    worker: str,
    lease_end: datetime,
) -> list[tuple[Any, ...]]:
    """Claims about `size` entries due at `moment`, evenly from those of the accounts that have some at or behind their
    positions: gives them the state, the worker and the lease, counts the attempt, and returns them with their
    recipients.

    `number` counts the claims of the worker: if an account gives fewer entries than `NORMAL_PART`, the priorities
    alternate. One statement on PostgreSQL, two on SQLite.
    """
    values = {
        "moment": moment,
        "accounts": as_json(accounts),
        "size": size,
        "turn": number % NORMAL_PART,
        "claimed_state": state,
        "claimer": worker,
        "lease_end": lease_end,
    }
    if is_postgresql(session):
        return _claim_with_recipients().tuples(session, **values)
    return _claim_on_sqlite(session, values)


def _claim_on_sqlite(session: Session, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Claims on SQLite, where an UPDATE cannot return columns of another table."""
    entries = {row[0]: row[1:] for row in _claim_entries().tuples(session, **values)}
    if not entries:
        return []
    recipients = _recipients().tuples(session, ids=json_array(entries))
    return [(*recipient, *entries[recipient[0]]) for recipient in recipients]


@cache
def _claim_with_recipients() -> PreparedStatement:
    """Built once: building it takes ten times as long as running it for a row."""
    # An array leaves the planner no choice but the column's index: it expects a tenth of the table to be picked, and
    # would read all of it to join with them.
    picked = any_(func.array(_picked_entries(on_postgresql=True).scalar_subquery()))
    claimed = _claimed_entries(table_of(QueueEntry).c.recipient_id == picked).cte("claimed")
    # One by one, with the limit that keeps the planner from joining: where PostgreSQL has counted the recipients while
    # there were few, it would read all of them. So it looks each id up in the one range that has it.
    columns = table_of(Recipient).c
    recipient_row = (
        select(*(columns[name] for name in RECIPIENT_COLUMNS)).where(columns.id == claimed.c.recipient_id).limit(1)
    )
    recipient = recipient_row.lateral("recipient")
    return PreparedStatement(
        select(
            *(recipient.c[name] for name in RECIPIENT_COLUMNS), *(claimed.c[name] for name in ENTRY_COLUMNS)
        ).select_from(claimed.join(recipient, true()))
    )


@cache
def _claim_entries() -> PreparedStatement:
    picked = _picked_entries(on_postgresql=False)
    return PreparedStatement(_claimed_entries(table_of(QueueEntry).c.recipient_id.in_(picked)))


def _claimed_entries(is_picked: ColumnElement[bool]) -> ReturningUpdate[Any]:
    """An entry whose recipient was deleted by hand stays as it is, for the cleaning."""
    entry, recipient = table_of(QueueEntry).c, table_of(Recipient).c
    recipient_id = select(recipient.id).where(recipient.id == entry.recipient_id).scalar_subquery()
    return (
        sql_update(table_of(QueueEntry))
        .where(is_picked, recipient_id.is_not(None))
        .values(**_claimed_values())
        .returning(entry.recipient_id, *(entry[name] for name in ENTRY_COLUMNS))
    )


@cache
def _recipients() -> PreparedStatement:
    columns = table_of(Recipient).c
    ids = bindparam("ids", type_=String)
    return PreparedStatement(select(*(columns[name] for name in RECIPIENT_COLUMNS)).where(in_json(columns.id, ids)))


def _claimed_values() -> dict[str, Any]:
    entry = table_of(QueueEntry).c
    return {
        "state": bindparam("claimed_state", type_=String),
        "worker": bindparam("claimer", type_=String),
        "lease_time": bindparam("lease_end", type_=entry.lease_time.type),
        "attempts": entry.attempts + 1,
    }


def _picked_entries(*, on_postgresql: bool) -> Select[Any]:
    """Ids of about SIZE entries due at MOMENT, taken evenly from the given accounts.

    On PostgreSQL the entries are locked, and those locked by other workers are skipped. SQLite has neither LATERAL nor
    row locks; there a transaction that claims has the only write lock.
    """
    given = SEND_QUEUE.given(on_postgresql=on_postgresql)
    served = select(given).where(SEND_QUEUE.has_due(given)).cte("served")
    share = select(SIZE // func.nullif(func.count(), 0, type_=Integer)).select_from(served).scalar_subquery()
    turn = _turn(served, share, locks=on_postgresql)
    if on_postgresql:
        turns = turn.lateral("turns")
        return select(turns.c.recipient_id).select_from(served.join(turns, true()))
    entry = aliased(QueueEntry, name="entry")
    return select(entry.recipient_id).select_from(served.join(entry, entry.recipient_id.in_(turn)))


def _turn(served: FromClause, share: Any, *, locks: bool) -> Select[Any]:
    """At most `share` entries of one account: first those of high priority but for the reserved part, then normal ones
    up to that part, then the remaining ones, those of high priority first."""
    reserved: ColumnElement[int] = (share + TURN) // NORMAL_PART
    high, normal = (_oldest(served, share, priority, locks=locks) for priority in ("high", "normal"))
    ranked = union_all(
        select(high.c.recipient_id, high.c.place, case((high.c.place <= share - reserved, 0), else_=2).label("rank")),
        select(normal.c.recipient_id, normal.c.place, case((normal.c.place <= reserved, 1), else_=3).label("rank")),
    ).subquery("ranked")
    return select(ranked.c.recipient_id).order_by(ranked.c.rank, ranked.c.place).limit(share).correlate(served)


def _oldest(served: FromClause, share: Any, priority: str, *, locks: bool) -> Any:
    """The oldest due entries of an account and a priority, at most `share`, with their places among these."""
    oldest = SEND_QUEUE.oldest(served, priority, "recipient_id", "due_time").limit(share)
    if locks:
        oldest = oldest.with_for_update(skip_locked=True)
    due = oldest.subquery()
    place = func.row_number().over(order_by=(due.c.due_time, due.c.recipient_id))
    return select(due.c.recipient_id, place.label("place")).subquery()


ONLY_PRIORITY = "only"
"""The priority of a queue whose entries have none, by which positions are named."""
RUN_QUEUE = Queue(
    AutomationRun,
    entry_id="id",
    waiting=literal_column("'waiting'", String),
    priorities={ONLY_PRIORITY: None},
    ready_time="due_time",
    reach=Reach(near=timedelta(seconds=2), far=timedelta(seconds=30), far_every=timedelta(seconds=2)),
)
SCHEDULED_QUEUE = Queue(
    QueueEntry,
    entry_id="recipient_id",
    waiting=literal_column("'scheduled'", String),
    priorities={ONLY_PRIORITY: None},
    ready_time="due_time",
    reach=Reach(near=timedelta(seconds=2), far=timedelta(seconds=30), far_every=timedelta(seconds=2)),
)
"""The entries that wait for the `send_at` of their send, before they enter the send queue."""
ENTRIES_PER_ACCOUNT = bindparam("each", type_=Integer)
CHUNK = 500
"""Runs of one transaction."""
CHUNK_ON_SQLITE = 100
"""Runs of one transaction on SQLite, where nobody else can write meanwhile."""


def chunk_size(session: Session) -> int:
    """How many runs a transaction takes."""
    return CHUNK if is_postgresql(session) else CHUNK_ON_SQLITE


class LockedEntry(NamedTuple):
    """A due entry that this transaction has locked, such as a run."""

    id: int
    account_id: int
    due_time: datetime


def lock_due(
    queue: Queue, session: Session, accounts: Mapping[int, Positions], moment: datetime, each: int
) -> list[LockedEntry]:
    """The oldest due entries of these accounts, not before their positions and at most so many of each, which stay as
    they are until the end of the transaction; those that others have locked are left out. The queue has one
    priority."""
    statement = _due(queue, on_postgresql=is_postgresql(session))
    rows = statement.tuples(session, accounts=as_json(accounts), moment=moment, each=each)
    return [LockedEntry._make(row) for row in rows]


@cache
def _due(queue: Queue, *, on_postgresql: bool) -> PreparedStatement:
    """SQLite has neither LATERAL nor row locks; there a transaction that writes has the only write lock."""
    given, names = queue.given(on_postgresql=on_postgresql), (queue.entry_id, "account_id", "due_time")
    if on_postgresql:
        oldest = queue.oldest(given, ONLY_PRIORITY, *names).limit(ENTRIES_PER_ACCOUNT)
        turns = oldest.with_for_update(skip_locked=True).lateral("turns")
        return PreparedStatement(select(turns).select_from(given.join(turns, true())))
    entry = aliased(queue.model, name="entry")
    columns = (getattr(entry, name) for name in names)
    oldest_ids = queue.oldest(given, ONLY_PRIORITY, queue.entry_id).limit(ENTRIES_PER_ACCOUNT)
    is_oldest = getattr(entry, queue.entry_id).in_(oldest_ids)
    return PreparedStatement(select(*columns).select_from(given.join(entry, is_oldest)))
