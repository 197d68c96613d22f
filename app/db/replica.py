"""Reports from a replica of the database, if `DATABASE_READ_URL` names one (docs/databases.md#a-replica-for-reports).

A report has everything that was committed when it was asked for: it comes from the replica once that has replayed the
write-ahead log as far as the database had written it by then. A replica that does not get there in a moment, or fails,
is left out for a while, and reports come from the database itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from app.db.bounded_connection import current, limit_waits
from app.db.database import Database, ReadSession
from app.db.outage import is_interruption

logger = logging.getLogger(__name__)

POSITION = text("SELECT CASE WHEN NOT pg_is_in_recovery() THEN CAST(pg_current_wal_flush_lsn() AS text) END")
"""NULL for a server that has just lost its place to another one: it can still be read, and writes no log."""
HAS_REPLAYED = text("SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn)")
CATCH_UP_SECONDS, PAUSE = 0.25, 0.01
"""Seconds in which a replica has to replay what is written, and between two looks."""
LOOK_SECONDS = 1.0
"""Seconds that a look may take."""
RETRY_SECONDS = 10.0
"""Seconds for which a replica is left out that has failed or is behind."""


class ReplicaFailed(OperationalError):
    """The replica has failed a report; the database itself may be well."""


class ReportsDatabase:
    """Where reports are read: a replica, or the database itself."""

    def __init__(self, database: Database, replica: Database | None = None) -> None:
        self._database = database
        self._replica = replica
        self._left_out_until = 0.0

    def read(self, account_id: int | None) -> AbstractContextManager[ReadSession]:
        """A session for selects of the account's reports. What an operator sees of all accounts (None) comes from the
        database itself."""
        replica = self._replica
        if replica is not None and account_id is not None and self._has_everything(replica):
            return self._reading(replica)
        return self._database.read()

    @contextmanager
    def _reading(self, replica: Database) -> Iterator[ReadSession]:
        try:
            with replica.read() as session:
                yield session
        except SQLAlchemyError as error:
            self._leave_out(f"has failed: {type(error).__name__}")
            if isinstance(error, OperationalError) and is_interruption(error):
                raise ReplicaFailed(error.statement, error.params, error.orig or error) from error
            raise

    def _has_everything(self, replica: Database) -> bool:
        """Whether the replica has all that is committed in the database by now, or gets it in a moment."""
        if time.monotonic() < self._left_out_until or replica.is_hanging:
            return False
        with self._database.read() as session:
            position = session.execute(POSITION).scalar_one()
        if position is None:
            return False
        deadline = time.monotonic() + CATCH_UP_SECONDS
        try:
            with current().measured(), limit_waits(LOOK_SECONDS), replica.read() as session:
                while not session.execute(HAS_REPLAYED, {"position": position}).scalar_one():
                    if time.monotonic() > deadline:
                        self._leave_out("is behind")
                        return False
                    time.sleep(PAUSE)
        except SQLAlchemyError as error:
            self._leave_out(f"cannot be read: {type(error).__name__}")
            return False
        return True

    def _leave_out(self, why: str) -> None:
        self._left_out_until = time.monotonic() + RETRY_SECONDS
        logger.warning("for %g seconds reports come from the database itself: its replica %s", RETRY_SECONDS, why)
