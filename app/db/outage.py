"""What the database's failures mean: whether it is unavailable, or one statement was wrong. Everybody who goes on
without the database, or answers 503 for it, asks here and tells the log by `log_failure`.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from typing import Any

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

UNAVAILABLE = (
    *("08", "53", "57", "58"),  # connection, resources (a full disk, too many connections), shutdown, system
    *("40", "55P03", "25P03", "25P04"),  # ended in favour of others, or for its length
    "25006",  # the server became a standby
)
"""What PostgreSQL's codes begin with that say nothing against the statement."""
BUSY_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
QUIET_SECONDS = 60.0
"""An outage has ended when a process has met nothing of it for so long; the next one is told in full again."""


class OutcomeUnknown(OperationalError):
    """The connection was lost during the commit: the transaction may have been committed, or not."""

    @classmethod
    def of(cls, error: DBAPIError) -> OutcomeUnknown:
        """The same failure, known for what it is."""
        cause = error.orig if error.orig is not None else error
        return cls(error.statement, error.params, cause, hide_parameters=True, connection_invalidated=True)


def is_unavailable(error: BaseException) -> bool:
    """Whether the database cannot be used now, whatever it is asked."""
    if isinstance(error, NoFreeConnection):
        return True
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or _is_unavailable(error.orig)


def _is_unavailable(cause: BaseException | None) -> bool:
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)  # extended ones hold the plain one in their last byte
        return code is not None and code & 0xFF in BUSY_SQLITE
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate is None:
            return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
        return cause.sqlstate.startswith(UNAVAILABLE)
    return True  # no driver's own words: the connection broke around it


def reason(error: BaseException) -> str:
    """One line of a database's failure."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__


class _Outage:
    """Of this process: when it last met one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = -QUIET_SECONDS

    def begins(self) -> bool:
        """Notes a failure; whether it is the first of an outage."""
        with self._lock:
            before, self._last = self._last, time.monotonic()
        return self._last - before >= QUIET_SECONDS

    def forget(self) -> None:
        """The next failure is the first one."""
        with self._lock:
            self._last = -QUIET_SECONDS


outage = _Outage()


def log_failure(logger: logging.Logger, what: str, error: SQLAlchemyError, **extra: Any) -> None:
    """Logs what could not be done: of an outage one line each, the first one of a process with its traceback; of
    anything else every traceback."""
    if not is_unavailable(error):
        logger.error("%s: %s", what, reason(error), exc_info=error, extra=extra)
    elif outage.begins():
        logger.warning("%s: the database is unavailable: %s", what, reason(error), exc_info=error, extra=extra)
    else:
        logger.warning("%s: the database is unavailable: %s", what, reason(error), extra=extra)
