"""Classifies database failures: the database is unavailable, or one statement was wrong. Code that continues without
the database, or answers 503 for it, uses `is_unavailable` and `log_failure`.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

UNAVAILABLE = (
    *("08", "53", "57", "58"),  # connection, resources (a full disk, too many connections), shutdown, system
    *("40", "55P03", "25P03", "25P04"),  # ended in favour of another transaction, or for its length
    "25006",  # the server became a standby
)
"""Prefixes of PostgreSQL's codes for failures whose cause is not the statement."""
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
"""An outage counts as over after that long without a failure in this process; the next one is logged in full again."""


class OutcomeUnknown(OperationalError):
    """The connection was lost during the commit: the transaction may have been committed, or not."""

    @classmethod
    def of(cls, error: DBAPIError) -> OutcomeUnknown:
        cause = error.orig if error.orig is not None else error
        return cls(error.statement, error.params, cause, hide_parameters=True, connection_invalidated=True)


def is_unavailable(error: BaseException) -> bool:
    """Whether the database cannot be used now, whatever the statement."""
    if isinstance(error, NoFreeConnection):
        return True
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or _is_unavailable(error.orig)


def _is_unavailable(cause: BaseException | None) -> bool:
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)  # the last byte of an extended code is the plain one
        return code is not None and code & 0xFF in BUSY_SQLITE
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate is None:
            return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
        return cause.sqlstate.startswith(UNAVAILABLE)
    return True  # not an error of the driver: the connection broke


def reason(error: BaseException) -> str:
    """The failure in one line."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__


class _Outage:
    """Time of this process's last failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = -QUIET_SECONDS

    def note_failure(self) -> bool:
        """Records a failure; returns whether it is the first of an outage."""
        with self._lock:
            before, self._last = self._last, time.monotonic()
        return self._last - before >= QUIET_SECONDS

    def reset(self) -> None:
        """Makes the next failure the first one."""
        with self._lock:
            self._last = -QUIET_SECONDS


outage = _Outage()
observers: list[Callable[[str], None]] = []
"""Are told the kind of each failure that is logged: `pool` without a free connection, `unavailable` or `other`."""


def log_failure(logger: logging.Logger, what: str, error: SQLAlchemyError, **extra: Any) -> None:
    """Logs a failure: during an outage in one line, with a traceback only for the first failure of the
    process; in any other case with a traceback."""
    kind = "pool" if isinstance(error, NoFreeConnection) else "unavailable" if is_unavailable(error) else "other"
    for observer in observers:
        observer(kind)
    if kind == "other":
        logger.error("%s: %s", what, reason(error), exc_info=error, extra=extra)
    elif outage.note_failure():
        logger.warning("%s: the database is unavailable: %s", what, reason(error), exc_info=error, extra=extra)
    else:
        logger.warning("%s: the database is unavailable: %s", what, reason(error), extra=extra)
