"""Determines up to which id all events of an account are visible, although transactions do not commit in the order of
their ids.

A transaction marks itself before it draws ids for events: by a shared advisory lock whose key is the account and the
last id drawn by then. It holds the lock until everything that it wrote is visible or rolled back. A reader that reads
first the last id drawn, and then the marks, knows that up to the lowest of them nothing can appear any more
(docs/decisions/018-events-in-rotating-tables.md). SQLite has one writer at a time, and needs no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Integer, delete, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from app.db.database import Database, Transaction
from app.db.expressions import is_postgresql
from app.db.models import Base, Event, EventRotation
from app.db.outage import is_blocked
from app.db.prepared import execute_on_driver

MAX_ID = 2**63 - 1
LOW_BITS = 2**31 - 1
"""A key of two parts has 32 bits for each. The higher bits of an id are those of an id nearby."""
LAST_EVENT_ID = "coalesce(pg_sequence_last_value('events_id_seq'), 0)"
READ_LAST_EVENT_ID = f"SELECT {LAST_EVENT_ID}"
READ_LAST_EVENT_ID_ON_SQLITE = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
READ_MARKS = (
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 "
    "AND classid = CAST(CAST(%(account_id)s AS bigint) & %(low_bits)s AS oid) "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

READ_WRITERS = text(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND relation = CAST(:table AS regclass) "
    "AND mode = 'RowExclusiveLock' AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
MAX_LOOKS, SECONDS_BETWEEN_LOOKS = 5, 0.02
"""How often writers are looked for again, and the seconds before."""


class _MarkWriter(FunctionElement[int]):
    name = "mark_writer"
    inherit_cache = True
    type = Integer()


def mark_writer(account_id: Any) -> ColumnElement[int]:
    """Marks the transaction as one that writes events of the account, for each row that is selected. The ids of the
    events must be drawn by a later statement."""
    return _MarkWriter(account_id)


@compiles(_MarkWriter, "sqlite")
def _on_sqlite(_element: _MarkWriter, _compiler: SQLCompiler, **_options: Any) -> str:
    return "0"


@compiles(_MarkWriter, "postgresql")
def _on_postgresql(element: _MarkWriter, compiler: SQLCompiler, **options: Any) -> str:
    (column,) = (compiler.process(part, **options) for part in element.clauses)
    parts = (f"CAST({value} & {LOW_BITS} AS integer)" for value in (column, LAST_EVENT_ID))
    return f"pg_advisory_xact_lock_shared({', '.join(parts)})"


def complete_to(session: Session, account_id: int) -> int:
    """The id up to which no event of the account can appear any more. A later statement sees those that exist."""
    if not is_postgresql(session):
        return MAX_ID
    connection = session.connection()
    last: int = execute_on_driver(connection, READ_LAST_EVENT_ID, None).fetchone()[0]
    marks = execute_on_driver(connection, READ_MARKS, {"account_id": account_id, "low_bits": LOW_BITS}).fetchall()
    return min([last, *(id_near(last, low_bits) for (low_bits,) in marks)])


def last_event_id(session: Session) -> int:
    """The last id that any transaction has drawn for an event."""
    statement = READ_LAST_EVENT_ID if is_postgresql(session) else READ_LAST_EVENT_ID_ON_SQLITE
    last: int = session.connection().exec_driver_sql(statement).scalar_one()
    return last


def settled_to(transaction: Transaction, model: type[Base]) -> int:
    """The id up to which no row of the table can appear any more. Waits for the transactions that are inserting into
    the table, and lets none begin to meanwhile, so it is for tables that are written shortly before a commit."""
    table = model.__tablename__
    if not is_postgresql(transaction):
        return MAX_ID
    transaction.execute(text(f"LOCK TABLE {table} IN SHARE MODE"))
    last: int = transaction.execute(text(f"SELECT coalesce(max(id), 0) FROM {table}")).scalar_one()  # noqa: S608 - a name
    return last


def settled_beside_writers(database: Database, model: type[Base], pause: Callable[[float], object]) -> int:
    """Like `settled_to`, but lets others write: it waits a moment only for those that are inserting when it looks.
    Returns 0 if they take longer. Whoever has drawn an id of the table holds the table's lock for writers until the id
    can be seen."""
    last_id = text(f"SELECT coalesce(max(id), 0) FROM {model.__tablename__}")  # noqa: S608 - a name
    with database.read() as session:
        last: int = session.execute(last_id).scalar_one()
        if not database.is_postgresql:
            return last
        writing = _writers(session, model)
        for _ in range(MAX_LOOKS):
            if not writing:
                return last
            pause(SECONDS_BETWEEN_LOOKS)
            writing &= _writers(session, model)
        return 0 if writing else last


def _writers(session: Session, model: type[Base]) -> set[str]:
    """The transactions that have written the table, or are about to."""
    return set(session.execute(READ_WRITERS, {"table": model.__tablename__}).scalars())


def id_near(known_id: int, low_bits: int) -> int:
    """The id with these low bits that is nearest to a known one."""
    ahead = (low_bits - known_id) & LOW_BITS
    return known_id + (ahead if ahead <= LOW_BITS // 2 else ahead - LOW_BITS - 1)


# The two tables that events are alternately written to (docs/decisions/018-events-in-rotating-tables.md).
#
# On PostgreSQL they are partitions, and one is truncated: that takes no time, and waits for no snapshot. SQLite has one
# table, and deletes the events of the older turn in pieces.

LOCK_SECONDS = 0.5
"""Everybody else who needs the table waits behind this wait."""
CHUNK = 1000
"""Events deleted in one transaction on SQLite: other writers wait for that."""


def lock_slot(transaction: Transaction, slot: int) -> bool:
    """Excludes everybody else from the events in the slot until the end of the transaction, which sees everything
    written to it. Returns False, with the transaction rolled back, if somebody uses the slot for longer than a
    moment."""
    if not is_postgresql(transaction):
        return True
    try:
        transaction.limit_lock_waits(LOCK_SECONDS)
        transaction.execute(text(f"LOCK TABLE events_{slot:d} IN ACCESS EXCLUSIVE MODE"))
    except OperationalError as error:
        if not is_blocked(error):
            raise
        transaction.rollback()
        return False
    return True


def end_of_piece(transaction: Transaction, rotation: EventRotation) -> int:
    """The id up to which `delete_piece` deletes the events of the older slot; `MAX_ID` for the last piece."""
    if is_postgresql(transaction):
        return MAX_ID
    oldest = select(Event.id).where(Event.id <= rotation.since_id).order_by(Event.id)
    return transaction.scalars(oldest.offset(CHUNK - 1).limit(1)).first() or MAX_ID


def delete_piece(transaction: Transaction, rotation: EventRotation, end: int) -> None:
    """Deletes the events of the older slot up to that id."""
    if is_postgresql(transaction):
        transaction.execute(text(f"TRUNCATE events_{rotation.other_slot:d}"))
    else:
        transaction.execute(delete(Event).where(Event.id <= min(end, rotation.since_id)))
