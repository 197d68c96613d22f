"""Reports from a replica of the database, if `DATABASE_READ_URL` names one (docs/databases.md#a-replica-for-reports).

A report comes from the replica only if that is at most `MAX_BEHIND` seconds behind and has all that the account has
sent; otherwise, and while the replica fails, it comes from the database itself. The newest heartbeat in the replica
tells how far it is behind: each process writes one every 15 seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import cache

from sqlalchemy import BigInteger, bindparam, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bounded_connection import limit_waits
from app.db.database import Database, ReadSession
from app.db.models import RunningProcess, Send
from app.db.prepared import PreparedStatement

logger = logging.getLogger(__name__)

MAX_BEHIND = timedelta(seconds=30)
CHECK_SECONDS = 5.0
"""Seconds between two looks at how far the replica is behind."""
RETRY_SECONDS = 10.0
"""Seconds for which a replica is not asked that has failed or is too far behind."""

CHECK_WAIT = 1.0
"""Seconds that a look may take."""


@cache
def _statement() -> PreparedStatement:
    return PreparedStatement(
        select(func.max(Send.id)).where(Send.account_id == bindparam("account_id", type_=BigInteger))
    )


def _newest_send(session: Session, account_id: int) -> int | None:
    ((send_id,),) = _statement().tuples(session, account_id=account_id)
    return None if send_id is None else int(send_id)


class ReportsDatabase:
    """Where reports are read: a replica, or the database itself."""

    def __init__(self, database: Database, replica: Database | None = None) -> None:
        self._database = database
        self._replica = replica
        self._checked_at = self._excluded_until = 0.0

    @property
    def seconds_behind(self) -> int:
        """How old a report may be; 0 without a replica."""
        return 0 if self._replica is None else MAX_BEHIND.seconds

    def read(self, account_id: int | None) -> AbstractContextManager[ReadSession]:
        """A session for selects of the account's reports. What an operator sees of all accounts (None) comes from the
        database itself."""
        replica = self._replica
        if (
            replica is not None
            and account_id is not None
            and self._is_usable(replica)
            and self._has_all(replica, account_id)
        ):
            return self._reading(replica)
        return self._database.read()

    @contextmanager
    def _reading(self, replica: Database) -> Iterator[ReadSession]:
        try:
            with replica.read() as session:
                yield session
        except SQLAlchemyError as error:
            self._exclude(f"it has failed: {type(error).__name__}")
            raise

    def _is_usable(self, replica: Database) -> bool:
        moment = time.monotonic()
        if moment < self._excluded_until or replica.is_hanging:
            return False
        if moment - self._checked_at < CHECK_SECONDS:
            return True
        try:
            with limit_waits(CHECK_WAIT), replica.read() as session:
                newest = session.execute(select(func.max(RunningProcess.seen_time))).scalar()
        except SQLAlchemyError as error:
            self._exclude(f"it cannot be read: {type(error).__name__}")
            return False
        if newest is None or now() - newest > MAX_BEHIND - timedelta(seconds=CHECK_SECONDS):
            self._exclude(f"it is more than {MAX_BEHIND.seconds} seconds behind")
            return False
        self._checked_at = moment
        return True

    def _has_all(self, replica: Database, account_id: int) -> bool:
        """Whether the replica has the newest send of the account."""
        with self._database.read() as session:
            newest = _newest_send(session, account_id)
        try:
            with limit_waits(CHECK_WAIT), replica.read() as session:
                return _newest_send(session, account_id) == newest
        except SQLAlchemyError as error:
            self._exclude(f"it cannot be read: {type(error).__name__}")
            return False

    def _exclude(self, why: str) -> None:
        self._excluded_until, self._checked_at = time.monotonic() + RETRY_SECONDS, 0.0
        logger.warning("reports come from the database itself, not from its replica: %s", why)
