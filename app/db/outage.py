"""Classifies database failures: the database is unavailable, or one statement was wrong; and the connection can be used
again, or would fail whoever gets it next. Code that continues without the database, or answers 503 for it, uses
`is_unavailable` and `log_failure`.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

DISCARD_KEY = "tms_discard"
"""Key in a connection's `info`: closed instead of returned to the pool."""


class Failure(NamedTuple):
    """A kind of failure. `is_outage`: its cause is not the statement, and it may pass by itself. `lasts`: the
    connection carries it on to whoever uses it next, so it is closed as soon as it is given back."""

    is_outage: bool
    lasts: bool


PASSING_OUTAGE, LASTING_OUTAGE = Failure(is_outage=True, lasts=False), Failure(is_outage=True, lasts=True)
CONNECTION_FAILURE = Failure(is_outage=False, lasts=True)
"""No outage, as far as anybody can tell, but another connection may not have it."""
STATEMENT_FAILURE = Failure(is_outage=False, lasts=False)

POSTGRESQL_FAILURES = {
    "08": LASTING_OUTAGE,  # the connection broke
    "25": CONNECTION_FAILURE,  # in a transaction that should have ended, such as 25P02 after an error
    "25006": LASTING_OUTAGE,  # read-only: a standby, a server that was demoted, `default_transaction_read_only`
    "25P03": LASTING_OUTAGE,  # ended for its length: idle in a transaction
    "25P04": LASTING_OUTAGE,  # ended for its length: the transaction
    "26": LASTING_OUTAGE,  # a prepared statement is gone: a pooler has changed the server process
    "34": LASTING_OUTAGE,  # a cursor is gone, likewise
    "3F": CONNECTION_FAILURE,  # the schema is gone, or the search path was changed
    "40": PASSING_OUTAGE,  # ended in favour of another transaction
    "42P01": CONNECTION_FAILURE,  # no such table: the search path was changed, or a migration is pending
    "42P05": LASTING_OUTAGE,  # a prepared statement of another client: a pooler has changed the server process
    "53": PASSING_OUTAGE,  # resources: a full disk, too many connections
    "55P03": PASSING_OUTAGE,  # a lock
    "57": PASSING_OUTAGE,  # cancelled
    "57P": LASTING_OUTAGE,  # the server shuts down, has crashed, has dropped the database, or ended an idle session
    "58": LASTING_OUTAGE,  # disk I/O
    "XX": CONNECTION_FAILURE,  # internal: a damaged cache of the process, or damaged data
}
"""Prefixes of PostgreSQL's codes; the longest counts."""
STALE_PLAN = "RevalidateCachedQuery"
"""The function of the server that refuses a prepared statement whose columns a migration has changed. Its code is that
of many other refusals, and its words depend on the language."""
SQLITE_FAILURES = {
    sqlite3.SQLITE_BUSY: PASSING_OUTAGE,
    sqlite3.SQLITE_LOCKED: PASSING_OUTAGE,
    sqlite3.SQLITE_NOMEM: PASSING_OUTAGE,
    sqlite3.SQLITE_READONLY: LASTING_OUTAGE,  # opened while the file could not be written, or the file was replaced
    sqlite3.SQLITE_INTERRUPT: PASSING_OUTAGE,
    sqlite3.SQLITE_IOERR: LASTING_OUTAGE,
    sqlite3.SQLITE_CORRUPT: CONNECTION_FAILURE,  # the file was overwritten
    sqlite3.SQLITE_FULL: PASSING_OUTAGE,
    sqlite3.SQLITE_CANTOPEN: LASTING_OUTAGE,  # its log cannot be opened
    sqlite3.SQLITE_PROTOCOL: LASTING_OUTAGE,
    sqlite3.SQLITE_NOTADB: CONNECTION_FAILURE,
}
"""The last byte of an extended code is the plain one."""
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
    return error.connection_invalidated or failure_of(error.orig).is_outage


INTERRUPTIONS = ("08", "25006", "40001", "57P01", "57P02", "57P03")
"""Prefixes of PostgreSQL's codes for what ends while another server becomes the primary, or this one starts."""


def is_interruption(error: BaseException) -> bool:
    """Whether PostgreSQL could not be reached, or has ended the transaction for no fault of its own: repeated a moment
    later, it may succeed."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if not isinstance(cause, psycopg.Error):
        return False
    return cause.sqlstate.startswith(INTERRUPTIONS) if cause.sqlstate else failure_of(cause) is LASTING_OUTAGE


def is_cancelled(error: BaseException) -> bool:
    """Whether PostgreSQL has cancelled a statement that took too long. It may have waited for a lock."""
    return _sqlstate(error) == "57014"


def is_blocked(error: BaseException) -> bool:
    """Whether a lock of another transaction of PostgreSQL has kept a statement from its rows, for longer than
    `Transaction.limit_lock_waits` allows or in a deadlock."""
    return _sqlstate(error) in ("40P01", "55P03")


def _sqlstate(error: BaseException) -> str | None:
    """PostgreSQL's code, unless the connection is lost."""
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return None
    return getattr(error.orig, "sqlstate", None)


def is_locked(error: BaseException) -> bool:
    """Whether another process has kept SQLite's file to itself for as long as writers wait for it."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def failure_of(cause: BaseException | None) -> Failure:
    """The kind of an error of the driver."""
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return STATEMENT_FAILURE if code is None else SQLITE_FAILURES.get(code & 0xFF, STATEMENT_FAILURE)
    if isinstance(cause, psycopg.Error):
        return _failure_of_postgresql(cause)
    return LASTING_OUTAGE  # not an error of the driver: the connection broke


def _failure_of_postgresql(cause: psycopg.Error) -> Failure:
    code = cause.sqlstate
    if code is None:
        is_lost = isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
        return LASTING_OUTAGE if is_lost else STATEMENT_FAILURE
    if cause.diag.source_function == STALE_PLAN:
        return LASTING_OUTAGE
    return next(
        (POSTGRESQL_FAILURES[code[:size]] for size in (5, 3, 2) if code[:size] in POSTGRESQL_FAILURES),
        STATEMENT_FAILURE,
    )


def note_failure(connection: Connection, cause: BaseException | None) -> None:
    """Has a connection closed when it is given back, if it would carry the failure on."""
    if failure_of(cause).lasts and not (connection.closed or connection.invalidated):
        connection.info[DISCARD_KEY] = True


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
