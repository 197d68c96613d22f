"""What is left of forgotten people in the files of the database (docs/privacy.md#remains-in-files): SQLite has copies
of rows that it has moved from page to page, and its write-ahead log, PostgreSQL a sample of the values of each column,
by which it plans.

Erasing marks it in the transaction that removes something, and the maintenance cleans the files: whoever forgets does
not wait for it, and a process that dies in between leaves the mark.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import delete, select, text
from sqlalchemy.exc import OperationalError

from app.clock import now
from app.db.bounded_connection import COMMAND_SECONDS, limit_waits
from app.db.bulk import upsert
from app.db.database import Database, Transaction
from app.db.engine import BUSY_TIMEOUT_MS
from app.db.models import Base, Remains
from app.db.models.base import PLACE
from app.distribution import COMMAND_LINE

SMALL_FILE_BYTES = 64 * 1024 * 1024
"""Bytes up to which the maintenance compacts a SQLite file: its new pages are written in a moment."""
MAX_COMPACTION_SECONDS = 0.5
"""Seconds for which compacting keeps others from writing before it puts the new pages in their place."""
SECONDS_BETWEEN_TRIES = 1800.0
"""Seconds between two tries: others cannot write for a moment."""
TOO_LARGE = f"the SQLite file is too large to be compacted while other processes write: run `{COMMAND_LINE} db compact`"
PATIENCE_SECONDS = 30.0
"""Seconds for which others that use the file are waited for."""
PAUSE = 0.1
CHECKPOINT_MS = 300
"""Milliseconds for which the write-ahead log waits to be emptied: nobody else can write meanwhile."""
STEPS_BETWEEN_LOOKS = 10_000
"""Steps of SQLite's virtual machine between two looks at the time: less than a millisecond."""
BUSY_ERRORS = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT)

logger = logging.getLogger(__name__)


class RemainsCleaner:
    """The cleaning of one process, which is tried once in a while, however often the maintenance runs."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._due = clock()

    def clean(self) -> None:
        """Cleans the files if that is due and there is a mark."""
        if self._clock() >= self._due and _marked_since(self._database) is not None:
            self._due = self._clock() + SECONDS_BETWEEN_TRIES
            clean_remains(self._database)


def mark_remains(transaction: Transaction) -> None:
    """Leaves it to the maintenance to clean the files of what the transaction removes."""
    row = {"id": 1, "since_time": now()}
    transaction.execute(
        upsert(transaction, Remains, row, index=["id"], update=lambda new: {"since_time": new.since_time})
    )


def clean_remains(database: Database) -> None:
    """Has PostgreSQL take statistics anew, and compacts SQLite's file, where something was removed since it was done
    last. What cannot be done now, because others use the file, is tried again by the next maintenance."""
    if (since := _marked_since(database)) is not None:
        _clean(database, since, _compact_beside_writers)


def remove_remains(database: Database) -> bool:
    """Cleans the files at once, however long nobody else can write meanwhile. Returns whether it was done."""
    return _clean(database, _marked_since(database), compact)


def _clean(database: Database, since: datetime | None, compacts: Callable[[Database], bool]) -> bool:
    """Removes the mark, unless something was removed after `since`, which may have come too late for the cleaning."""
    _renew_statistics(database)
    is_done = compacts(database)
    if is_done and since is not None:
        with database.write() as transaction:
            transaction.execute(delete(Remains).where(Remains.since_time == since))
    return is_done


def _marked_since(database: Database) -> datetime | None:
    with database.read() as session:
        return session.scalar(select(Remains.since_time))


def _compact_beside_writers(database: Database) -> bool:
    size = file_size(database)
    if size is None:
        return True
    if size <= SMALL_FILE_BYTES:
        return compact_within(database, MAX_COMPACTION_SECONDS)
    is_done = empty_log(database)
    if is_done:
        logger.info(TOO_LARGE, extra={"bytes": size})
    return is_done


def file_size(database: Database) -> int | None:
    """The bytes of SQLite's file; None on PostgreSQL."""
    if database.is_postgresql:
        return None
    with database.read() as session:
        pages, size = (session.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
        return int(pages) * int(size)


def _renew_statistics(database: Database) -> None:
    """Has PostgreSQL take the samples of the tables with personal data anew, which may contain what was deleted: of so
    many rows, however many there are, and each in a transaction of its own. That may take minutes where a table has
    many parts."""
    if not database.is_postgresql:
        return
    tables = Base.metadata.tables.values()
    with limit_waits(COMMAND_SECONDS), database.engine.connect() as connection:
        for table in sorted(table.name for table in tables if any(column.info.get(PLACE) for column in table.columns)):
            connection.exec_driver_sql(f'ANALYZE "{table}"')
            connection.commit()


def compact(database: Database) -> bool:
    """Writes SQLite's file anew without anything that was deleted, also from the write-ahead log, however long nobody
    else can write meanwhile. Returns False if others have used the file all the time. PostgreSQL reuses the space by
    itself."""
    if database.is_postgresql:
        return True
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if compact_within(database, float("inf")):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)


def compact_within(database: Database, seconds: float) -> bool:
    """Compacts like `compact`, but gives up after so many seconds, and changes nothing then. Returns whether it was
    done. Putting the new pages in their place cannot be given up: that takes as long as writing the file."""
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

    driver.set_progress_handler(is_late, STEPS_BETWEEN_LOOKS)
    try:
        driver.execute("VACUUM")
    finally:
        driver.set_progress_handler(None, STEPS_BETWEEN_LOOKS)
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
        if getattr(cause, "sqlite_errorcode", None) in BUSY_ERRORS:
            return False
        raise
