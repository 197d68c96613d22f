"""Looking for due entries of the send queue: which accounts have some, and from which position on.

A look at the whole queue skips through the partial index from one account to the next, a few index probes per account
however many entries wait. But claimed entries stay in the index until no snapshot held anywhere can see them (a backup,
a long report), and such a look reads past all of them. So a process remembers what it has found
(`app/sends/delivery/claim.py`), and between two full looks it reads only the entries that have become ready
since the last look, by their `ready_time`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    ScalarSelect,
    String,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

from app.db.dialect import is_postgresql
from app.db.given_rows import given_rows, stored_time
from app.db.models import QueueEntry
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
