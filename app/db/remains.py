"""What deleting leaves in the files of a database: SQLite keeps the content of free pages, PostgreSQL a sample of the
values of each column, by which it plans."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app.db.database import Database

PATIENCE = 30.0
"""Seconds for which others that use the file are waited for."""
PAUSE = 0.1


def file_size(database: Database) -> int | None:
    """The bytes of SQLite's file; None on PostgreSQL."""
    if database.is_postgresql:
        return None
    with database.read() as session:
        pages, size = (session.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size"))
        return int(pages) * int(size)


def renew_statistics(database: Database, tables: Collection[str]) -> None:
    """Takes the samples of these tables anew, which may contain what was deleted: of so many rows, however many there
    are."""
    with database.engine.connect() as connection:
        if not database.is_postgresql:
            connection.exec_driver_sql("PRAGMA analysis_limit=400")
        for table in tables:
            connection.exec_driver_sql(f'ANALYZE "{table}"')
        connection.commit()


def compact(database: Database) -> bool:
    """Writes SQLite's file anew without anything that was deleted, also from the write-ahead log. Nobody else writes
    meanwhile. Returns False if others have used the file all the time. PostgreSQL reuses the space by itself."""
    if database.is_postgresql:
        return True
    deadline = time.monotonic() + PATIENCE
    while True:
        if _compacted(database):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)


def _compacted(database: Database) -> bool:
    try:
        with database.engine.connect() as connection:
            driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
            driver.execute("VACUUM")
            busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
    except (sqlite3.OperationalError, OperationalError) as error:
        cause = error.orig if isinstance(error, OperationalError) else error
        if getattr(cause, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise
