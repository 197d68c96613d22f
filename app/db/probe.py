"""Checks whether the database accepts writes: by the smallest possible one, in a transaction that is committed."""

from __future__ import annotations

import sqlite3
from typing import cast

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from app.db.database import Database
from app.db.outage import DISCARD, note_failure

PROBE_SECONDS = 3.0
MESSAGE = text("SELECT current_setting('transaction_read_only'), pg_logical_emit_message(true, 'tms', '')")
"""Goes through the write-ahead log and the commit, also to a synchronous standby, and into no table."""


def accepts_writes(database: Database) -> bool:
    """False for a read-only server. Raises `SQLAlchemyError` for any other reason."""
    if database.is_postgresql:
        with database.write() as transaction:
            is_open = bool(transaction.execute(MESSAGE).one()[0] == "off")
            if not is_open:  # another server may have taken its place meanwhile
                transaction.connection().info[DISCARD] = True
        return is_open
    with database.engine.connect() as connection:
        _write_to_sqlite(connection)
    return True


def _write_to_sqlite(connection: Connection) -> None:
    """Rewrites an unused number of the file header with its own value."""
    driver = cast(sqlite3.Connection, connection.connection.driver_connection)
    (usual,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute(f"PRAGMA busy_timeout={round(PROBE_SECONDS * 1000)}")
    try:
        driver.execute("BEGIN IMMEDIATE")
        (number,) = driver.execute("PRAGMA user_version").fetchone()
        driver.execute(f"PRAGMA user_version={number}")
        driver.execute("COMMIT")
    except sqlite3.Error as error:
        driver.rollback()
        note_failure(connection, error)
        raise OperationalError(None, None, error) from error
    finally:
        driver.execute(f"PRAGMA busy_timeout={usual}")
