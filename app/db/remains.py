"""What deleting leaves in the files of a database: SQLite copies of rows that it has moved from page to page, and its
write-ahead log, PostgreSQL a sample of the values of each column, by which it plans."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app.clock import now
from app.db.bulk import upsert
from app.db.database import Database, Transaction
from app.db.engine import BUSY_TIMEOUT_MS
from app.db.models import Remains

PATIENCE = 30.0
"""Seconds for which others that use the file are waited for."""
PAUSE = 0.1
CHECKPOINT_MS = 300
"""Milliseconds for which the write-ahead log waits to be emptied: nobody else can write meanwhile."""
STEPS = 10_000
"""Of SQLite's virtual machine, between two looks at the time: less than a millisecond."""
GIVES_WAY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT)


def file_size(database: Database) -> int | None:
    """The bytes of SQLite's file; None on PostgreSQL."""
    if database.is_postgresql:
        return None
    with database.read() as session:
        pages, size = (session.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
        return int(pages) * int(size)


def mark_remains(transaction: Transaction) -> None:
    """Leaves it to the maintenance to clean the files of what the transaction removes (app/privacy/remains.py)."""
    row = {"id": 1, "since_time": now()}
    transaction.execute(
        upsert(transaction, Remains, row, index=["id"], update=lambda new: {"since_time": new.since_time})
    )


def renew_statistics(database: Database, tables: Collection[str]) -> None:
    """Takes the samples of these tables anew, which may contain what was deleted: of so many rows, however many there
    are, and each in a transaction of its own."""
    with database.engine.connect() as connection:
        if not database.is_postgresql:
            connection.exec_driver_sql("PRAGMA analysis_limit=400")
        for table in tables:
            connection.exec_driver_sql(f'ANALYZE "{table}"')
            connection.commit()


def compact(database: Database) -> bool:
    """Writes SQLite's file anew without anything that was deleted, also from the write-ahead log, however long nobody
    else can write meanwhile. Returns False if others have used the file all the time. PostgreSQL reuses the space by
    itself."""
    if database.is_postgresql:
        return True
    deadline = time.monotonic() + PATIENCE
    while True:
        if compact_within(database, float("inf")):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)


def compact_within(database: Database, seconds: float) -> bool:
    """The same, but given up after so many seconds, and nothing is changed then; returns whether it was done. Putting
    the new pages in their place cannot be given up: that takes as long as writing the file."""
    return _given_way(database, lambda driver: _vacuum(driver, seconds) and _empty_log(driver))


def empty_log(database: Database) -> bool:
    """Puts SQLite's write-ahead log into its file, and cuts it to nothing; returns whether nobody read it just then."""
    return _given_way(database, _empty_log)


def _vacuum(driver: sqlite3.Connection, seconds: float) -> bool:
    end: list[float] = []

    def is_late() -> bool:
        # From its first step on: before, it waits for the lock, and nobody waits for it.
        end[:] = end or [time.monotonic() + seconds]
        return time.monotonic() > end[0]

    driver.set_progress_handler(is_late, STEPS)
    try:
        driver.execute("VACUUM")
    finally:
        driver.set_progress_handler(None, STEPS)
    return True


def _empty_log(driver: sqlite3.Connection) -> bool:
    """Most of it beside those who write: cutting it, for which they wait, is quick then."""
    driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    driver.execute(f"PRAGMA busy_timeout={CHECKPOINT_MS}")
    try:
        busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        driver.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    return not busy


def _given_way(database: Database, work: Callable[[sqlite3.Connection], bool]) -> bool:
    try:
        with database.engine.connect() as connection:
            driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
            return work(driver)
    except (sqlite3.OperationalError, OperationalError) as error:
        cause = error.orig if isinstance(error, OperationalError) else error
        if getattr(cause, "sqlite_errorcode", None) in GIVES_WAY:
            return False
        raise
