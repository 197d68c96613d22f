"""The send queue: looking for due entries, and claiming them, in the forms that the two databases need."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    String,
    and_,
    any_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy import update as sql_update
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.bulk import given_rows, stored_time
from app.db.dialect import is_postgresql
from app.db.expressions import in_json, json_array
from app.db.models import QueueEntry, Recipient, table_of
from app.db.prepared import PreparedStatement

# Written into the statement, not bound: with a parameter in its place neither database would use the partial index.
QUEUED: ColumnElement[str] = literal_column("'queued'")
NOT_NEGATIVE: ColumnElement[bool] = literal_column("send_queue.attempts >= 0")
HIGH, NORMAL = literal_column("'high'", String), literal_column("'normal'", String)
PRIORITIES = {"high": HIGH, "normal": NORMAL}

MOMENT = bindparam("moment", type_=QueueEntry.due_time.type)
SINCE = bindparam("since", type_=QueueEntry.ready_time.type)


class Position(NamedTuple):
    """A place in the order of an account's entries of one priority."""

    due_time: datetime
    recipient_id: int = 0


Positions = Mapping[str, Position]
"""Priority -> where its due entries begin; a priority without any is missing."""


def look_at_all(session: Session, moment: datetime) -> dict[int, Positions]:
    """The accounts that have entries due at that moment, each with the positions at which they begin."""
    rows = _first_due_times().tuples(session)
    found = {account_id: _positions(zip(PRIORITIES, firsts, strict=True), moment) for account_id, *firsts in rows}
    return {account_id: positions for account_id, positions in found.items() if positions}


def look_at_ready(session: Session, since: datetime, moment: datetime) -> dict[int, Positions]:
    """The same for entries that have become ready between the two moments."""
    found: dict[int, dict[str, Position]] = {}
    for account_id, priority, first in _ready().tuples(session, since=since, moment=moment):
        found.setdefault(account_id, {})[priority] = Position(first)
    return {**found}


def still_due(session: Session, accounts: Mapping[int, Positions], moment: datetime) -> dict[int, Positions]:
    """Those of the accounts that have due entries at or behind their positions, with the positions of the first."""
    statement = _still_due(on_postgresql=is_postgresql(session))
    rows = statement.tuples(session, moment=moment, accounts=as_json(accounts))
    found = {account_id: _positions(zip(PRIORITIES, firsts, strict=True), moment) for account_id, *firsts in rows}
    return {account_id: positions for account_id, positions in found.items() if positions}


def _positions(firsts: Iterable[tuple[str, datetime | None]], moment: datetime) -> Positions:
    return {priority: Position(first) for priority, first in firsts if first is not None and first <= moment}


@cache
def _first_due_times() -> PreparedStatement:
    """The first due time of each priority, for every account that has queued entries."""
    waiting = _waiting_accounts().c.account_id
    return PreparedStatement(select(waiting, *(_first_due(waiting, priority) for priority in PRIORITIES.values())))


def _first_due(account_id: ColumnElement[int], priority: ColumnElement[str]) -> Any:
    own = aliased(QueueEntry)
    first = select(func.min(own.due_time)).where(own.state == QUEUED, own.account_id == account_id)
    return first.where(own.priority == priority).scalar_subquery()


def _waiting_accounts() -> CTE:
    """Every account that has queued entries; the last step of the recursion adds a null, which equals nothing."""
    first = select(func.min(QueueEntry.account_id).label("account_id")).where(QueueEntry.state == QUEUED)
    waiting = first.cte("waiting", recursive=True)
    further = aliased(QueueEntry, name="further")
    beyond: ColumnElement[bool] = and_(further.state == QUEUED, further.account_id > waiting.c.account_id)
    following = select(func.min(further.account_id)).where(beyond).scalar_subquery()
    return waiting.union_all(select(following).where(waiting.c.account_id.is_not(None)))


@cache
def _ready() -> PreparedStatement:
    """What is ready is due. With this order PostgreSQL can only use the index on that time, even if it has analyzed the
    table while it was empty and considers all indexes equal."""
    entry = QueueEntry
    is_ready = and_(entry.state == QUEUED, NOT_NEGATIVE, entry.ready_time.between(SINCE, MOMENT))
    in_order = select(entry.account_id, entry.priority, entry.due_time).where(is_ready).order_by(entry.ready_time)
    ready = in_order.subquery("ready").c
    account = ready.account_id, ready.priority
    return PreparedStatement(select(*account, func.min(ready.due_time)).group_by(*account))


@cache
def _still_due(*, on_postgresql: bool) -> PreparedStatement:
    given = given_accounts(on_postgresql=on_postgresql)
    return PreparedStatement(select(given.c.account_id, *(_first_of(given, priority) for priority in PRIORITIES)))


def has_due_entries(given: FromClause) -> ColumnElement[bool]:
    """The condition on given accounts that they have due entries at or after their positions."""
    return or_(*(_first_of(given, priority).is_not(None) for priority in PRIORITIES))


def _first_of(given: FromClause, priority: str) -> ScalarSelect[Any]:
    """Not EXISTS, which PostgreSQL may answer by reading all due entries into a table of hashes."""
    entry = aliased(QueueEntry)
    first = select(entry.due_time).where(*is_due_in_turn(entry, given, priority)).correlate(given)
    return first.order_by(entry.due_time, entry.recipient_id).limit(1).scalar_subquery()


def is_due_in_turn(entry: Any, given: FromClause, priority: str) -> tuple[ColumnElement[bool], ...]:
    """Conditions on entries: of a given account and that priority, due, and not before the given position.

    An account that has no position is not read for that priority.
    """
    position = tuple_(given.c[f"{priority}_due"], given.c[f"{priority}_id"])
    return (
        entry.state == QUEUED,
        entry.account_id == given.c.account_id,
        entry.priority == PRIORITIES[priority],
        entry.due_time <= MOMENT,
        tuple_(entry.due_time, entry.recipient_id) >= position,
    )


def as_json(accounts: Mapping[int, Positions]) -> str:
    """The value of the parameter `accounts`."""
    return orjson.dumps([_given(account_id, positions) for account_id, positions in accounts.items()]).decode()


def _given(account_id: int, positions: Positions) -> dict[str, int | str]:
    given: dict[str, int | str] = {"account_id": account_id}
    for priority, position in positions.items():
        given[f"{priority}_due"] = stored_time(position.due_time)
        given[f"{priority}_id"] = position.recipient_id
    return given


def given_accounts(*, on_postgresql: bool) -> FromClause:
    """The accounts of the parameter `accounts` with their positions, as a table."""
    entry = QueueEntry
    types: dict[str, Any] = {"account_id": entry.account_id.type}
    for priority in PRIORITIES:
        types |= {f"{priority}_due": entry.due_time.type, f"{priority}_id": entry.recipient_id.type}
    return given_rows("accounts", types, on_postgresql=on_postgresql)


NORMAL_PART = 4
"""One in so many entries of an account's turn is of normal priority, while any waits."""

SIZE = bindparam("size", type_=Integer)
TURN = bindparam("turn", type_=Integer)

RECIPIENT = (
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
ENTRY = "attempts", "due_time", "priority"
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
    """Its UPDATE cannot return columns of another table."""
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
    own = select(*(columns[name] for name in RECIPIENT)).where(columns.id == claimed.c.recipient_id).limit(1)
    recipient = own.lateral("recipient")
    return PreparedStatement(
        select(*(recipient.c[name] for name in RECIPIENT), *(claimed.c[name] for name in ENTRY)).select_from(
            claimed.join(recipient, true())
        )
    )


@cache
def _claim_entries() -> PreparedStatement:
    picked = _picked_entries(on_postgresql=False)
    return PreparedStatement(_claimed_entries(table_of(QueueEntry).c.recipient_id.in_(picked)))


def _claimed_entries(is_picked: ColumnElement[bool]) -> ReturningUpdate[Any]:
    """An entry whose recipient was deleted by hand stays as it is, for the cleaning."""
    entry, recipient = table_of(QueueEntry).c, table_of(Recipient).c
    own = select(recipient.id).where(recipient.id == entry.recipient_id).scalar_subquery()
    return (
        sql_update(table_of(QueueEntry))
        .where(is_picked, own.is_not(None))
        .values(**_claimed_values())
        .returning(entry.recipient_id, *(entry[name] for name in ENTRY))
    )


@cache
def _recipients() -> PreparedStatement:
    columns = table_of(Recipient).c
    ids = bindparam("ids", type_=String)
    return PreparedStatement(select(*(columns[name] for name in RECIPIENT)).where(in_json(columns.id, ids)))


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
    given = given_accounts(on_postgresql=on_postgresql)
    served = select(given).where(has_due_entries(given)).cte("served")
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
    entry = aliased(QueueEntry)
    oldest = (
        select(entry.recipient_id, entry.due_time)
        .where(*is_due_in_turn(entry, served, priority))
        .order_by(entry.due_time, entry.recipient_id)
        .limit(share)
        .correlate(served)
    )
    if locks:
        oldest = oldest.with_for_update(skip_locked=True)
    found = oldest.subquery()
    place = func.row_number().over(order_by=(found.c.due_time, found.c.recipient_id))
    return select(found.c.recipient_id, place.label("place")).subquery()


FULL_SHARE = 0.01
"""Share of the time that such looks may take."""


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
