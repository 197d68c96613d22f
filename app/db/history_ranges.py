"""The history of recipients in ranges of ids, so that an old one can be dropped whole
(docs/decisions/019-history-in-ranges.md).

On PostgreSQL each range is a partition of `recipients` and one of `recipient_steps`. Ranges that no id has reached yet
are made ahead, so an insert always finds one. A range ends when the sequence of ids is moved to the start of the next
one; ids in between are not used. Nothing of this is written down: what a range holds is told by its rows.

SQLite has one table, whose rows of one month count as a range and are deleted in chunks.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import delete, exists, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db.database import Database, Transaction
from app.db.expressions import is_postgresql
from app.db.models import QueueEntry, Recipient

Result = TypeVar("Result")

SPAN = 1_000_000_000
"""Ids of a range. Should a month need more, it goes on in the next range."""
RANGES_AHEAD = 3
"""Ranges beyond the one that ids are drawn from."""
RANGE_KEYS = {"recipients": "id", "recipient_steps": "recipient_id"}
"""Table -> the column by which it is in ranges."""
PARTITION = re.compile(rf"events_\d|(?:{'|'.join(RANGE_KEYS)})_r[0-9]+")
"""Names of the tables that are parts of another one, through which their rows are read and written: its name comes
before the last underscore."""
BOUNDS = re.compile(r"FOR VALUES FROM \((?:'([0-9]+)'|MINVALUE)\) TO \('([0-9]+)'\)")
CHUNK = 1000
"""Rows that SQLite deletes in one transaction."""

LOCK_TIMEOUT = "50ms"
"""How long a lock on a whole table may be waited for: others that want the table wait behind."""
PATIENCE_SECONDS = 60.0
"""Seconds after which the locks are given up."""
PAUSE = (0.1, 0.3)
LOCK_SQLSTATES = {"55P03", "40P01"}
"""SQLSTATEs of a lock that was not available in time, and of a deadlock."""

_random = secrets.SystemRandom()

PARTITIONS = """
SELECT CAST(substring(relname FROM '[0-9]+$') AS bigint), pg_get_expr(relpartbound, child.oid), reltuples,
    pg_total_relation_size(child.oid) + coalesce(pg_total_relation_size(to_regclass(
        'recipient_steps_r' || substring(relname FROM '[0-9]+$'))), 0)
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = CAST('recipients' AS regclass)
"""
MONTHS_ON_SQLITE = """
SELECT min(id), max(id), count(*) FROM recipients GROUP BY substr(creation_time, 1, 7) ORDER BY 1
"""
LAST_ID = "SELECT last_value FROM recipients_id_seq"


class IdRange(NamedTuple):
    """The recipients from the id `first` up to, not including, `end`, with their steps. `rows` is an estimate, `size`
    their bytes on the disk, where the database tells."""

    number: int
    first: int
    end: int
    rows: int
    size: int | None


class TableInUse(Exception):
    """Others have used the tables all the time that the locks were tried."""


class RangeInUse(Exception):
    """The range has recipients that are not settled, or new ids are drawn from it."""


def id_ranges(session: Session) -> list[IdRange]:
    """The ranges of ids in their order, those made ahead included."""
    return sorted(_partitions(session) if is_postgresql(session) else _months_on_sqlite(session))


def _partitions(session: Session) -> Iterator[IdRange]:
    for number, bounds, rows, size in session.execute(text(PARTITIONS)):
        if bounds is None:  # dropped by another transaction since the statement began
            continue
        match = BOUNDS.fullmatch(bounds)
        if match is None:
            raise ValueError(f"a range has unknown bounds: {bounds}")
        first, end = int(match[1] or 0), int(match[2])
        yield IdRange(number, first, end, _estimate(session, first, end, rows), size)


def _estimate(session: Session, first: int, end: int, analysed_rows: float) -> int:
    """PostgreSQL knows the number of rows of a table that it has ever analysed. Another table is small, and is counted
    through `recipients`, because another transaction may drop it."""
    if analysed_rows >= 0:
        return int(analysed_rows)
    rows = select(func.count()).where(Recipient.id >= first, Recipient.id < end)
    return session.execute(rows).scalar_one()


def _months_on_sqlite(session: Session) -> Iterator[IdRange]:
    months = session.execute(text(MONTHS_ON_SQLITE)).all()
    ends = [*(first for first, _, _ in months[1:]), *(last + 1 for _, last, _ in months[-1:])]
    for number, ((first, _, rows), end) in enumerate(zip(months, ends, strict=True)):
        yield IdRange(number, first, end, rows, None)


def has_ranges(session: Session) -> bool:
    """Whether a range is dropped at once; otherwise its rows are deleted."""
    return is_postgresql(session)


def range_of_new_ids(session: Session) -> IdRange | None:
    """The range that ids are drawn from; None on SQLite, which has no ranges to begin."""
    if not is_postgresql(session):
        return None
    last = _last_id(session)
    return next((id_range for id_range in id_ranges(session) if id_range.first <= last < id_range.end), None)


def _last_id(session: Session) -> int:
    return int(session.execute(text(LAST_ID)).scalar_one())


def make_ranges_ahead(database: Database) -> int:
    """Makes the ranges that are missing; returns their number. Raises `TableInUse`."""
    if not database.is_postgresql:
        return 0
    with database.read() as session:
        ranges, last = id_ranges(session), _last_id(session)
    missing = RANGES_AHEAD - sum(id_range.first > last for id_range in ranges)
    start = max(id_range.end for id_range in ranges) // SPAN
    for number in range(start, start + missing):
        _with_short_locks(database, partial(_make, number=number))
    return max(missing, 0)


ONE_AT_A_TIME = text("LOCK TABLE ONLY recipients IN SHARE UPDATE EXCLUSIVE MODE")
"""The lock of whoever changes the ranges. Nobody else waits for it."""


def _make(transaction: Transaction, number: int) -> None:
    """Made apart and then attached: that does not lock out those who read and write the other ranges. Somebody else may
    have been quicker."""
    transaction.execute(ONE_AT_A_TIME)
    if transaction.execute(text(f"SELECT to_regclass('recipients_r{number}')")).scalar() is not None:
        return
    bounds = f"FROM ({number * SPAN}) TO ({(number + 1) * SPAN})"
    for table in RANGE_KEYS:
        name = f"{table}_r{number}"
        transaction.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE)"))
        transaction.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}"))


def begin_range(database: Database, current: IdRange) -> None:
    """Draws new ids from the range after the current one, unless somebody else has begun it already."""

    def begin(transaction: Transaction) -> None:
        transaction.execute(ONE_AT_A_TIME)
        if _last_id(transaction) >= current.end:
            return
        for table in RANGE_KEYS:
            _forget_statistics(transaction, f"{table}_r{current.end // SPAN}")
        transaction.execute(text("SELECT setval('recipients_id_seq', :first, false)"), {"first": current.end})

    _with_short_locks(database, begin)


def _forget_statistics(transaction: Transaction, empty: str) -> None:
    """An ANALYZE of the whole database has told PostgreSQL that the range is empty: it would plan to read all of it for
    each recipient until the next one. One that it knows nothing of it takes for larger."""
    transaction.execute(text(f"LOCK TABLE {empty} IN ACCESS EXCLUSIVE MODE"))
    if not transaction.execute(text(f"SELECT EXISTS (SELECT FROM {empty})")).scalar_one():  # noqa: S608 - a name
        transaction.execute(text(f"TRUNCATE {empty}"))


def drop_range(database: Database, dropped: IdRange) -> None:
    """Drops the range with all its rows. Raises `RangeInUse` and `TableInUse`.

    On PostgreSQL it takes a moment, in which nobody else uses the tables.
    """
    if not database.is_postgresql:
        while _delete_chunk(database, dropped):
            pass
        return

    def drop(transaction: Transaction) -> None:
        transaction.execute(text("LOCK TABLE ONLY recipients IN ACCESS EXCLUSIVE MODE"))
        _check_unused(transaction, dropped)
        for table in RANGE_KEYS:
            transaction.execute(text(f"DROP TABLE IF EXISTS {table}_r{dropped.number}"))

    _with_short_locks(database, drop)


def _check_unused(transaction: Transaction, dropped: IdRange) -> None:
    unsettled = exists().where(QueueEntry.recipient_id >= dropped.first, QueueEntry.recipient_id < dropped.end)
    if transaction.scalar(select(unsettled)):
        raise RangeInUse("some of its recipients are not settled")
    if is_postgresql(transaction) and _last_id(transaction) < dropped.end:
        raise RangeInUse("new recipients are still written to it")


def _delete_chunk(database: Database, dropped: IdRange) -> bool:
    oldest = select(Recipient.id).where(Recipient.id >= dropped.first, Recipient.id < dropped.end)
    with database.write() as transaction:
        _check_unused(transaction, dropped)
        ids = list(transaction.scalars(oldest.order_by(Recipient.id).limit(CHUNK)))
        if ids:
            transaction.connection().execute(delete(Recipient).where(Recipient.id.between(ids[0], ids[-1])))
    return bool(ids)


def _with_short_locks(database: Database, work: Callable[[Transaction], Result]) -> Result:
    """Runs the work in a transaction that waits for no lock longer than a moment, until it has got all of them."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with database.write() as transaction:
                transaction.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
                return work(transaction)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in LOCK_SQLSTATES:
                raise
            if time.monotonic() > deadline:
                raise TableInUse(f"others have used the tables for {PATIENCE_SECONDS:g} s without a pause") from error
        time.sleep(_random.uniform(*PAUSE))
