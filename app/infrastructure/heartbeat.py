"""Heartbeats: what other hosts see of the liveness of this process (docs/monitoring/metrics.md#heartbeats).

They cannot see its lock and its signs of life (app/infrastructure/liveness.py), so a row under its name says in the
database that it runs, and when its main loop last turned; Redis may vanish. It is written every `PERIOD` seconds by a
thread of its own, so that neither a request nor a message waits for it. The same round trip compares the clocks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Delete, Insert, Update, delete, exists, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import aliased

from app.clock import now
from app.db import bounded_connection
from app.db.clock_difference import write_and_compare
from app.db.database import Database
from app.db.models import RunningProcess
from app.distribution import VERSION
from app.infrastructure import liveness
from app.infrastructure.clock_watch import ClockWatch
from app.infrastructure.liveness import host_name, process_name
from app.infrastructure.redis_client import SENDS
from app.infrastructure.sender_share import SenderShare
from app.secret_keys import short_fingerprint
from app.settings import Settings

PERIOD = 15.0
"""Seconds between two heartbeats."""
SILENT = timedelta(seconds=liveness.STALE_SECONDS)
"""A process is silent when its main loop has not turned for so long."""
EXPIRY_AGE = timedelta(minutes=10)
"""The rows of processes that have been silent for so long are deleted, unless their host is lost with them."""
LOST_AGE = timedelta(days=1)
"""For so long the rows of a lost host are kept."""
MAX_LOST = 100
"""Rows of lost hosts that are kept: those that were seen last."""
WAIT = 5.0
"""Seconds that writing one may wait for the database: the next one comes soon."""
STOP_SECONDS = 1.0
"""Seconds that a process which stops waits for its row to be deleted."""

Write = Callable[[bool], object]
"""What else the thread writes: called after each heartbeat, and with True when the process ends."""

logger = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeat of this process. `roles` are what it does: a worker's queues, or `api`, `scheduler`, `inbound`,
    `submission`."""

    def __init__(
        self,
        database: Database,
        roles: Sequence[str],
        turned: Callable[[], float] = liveness.turned,
        also: Write | None = None,
        *,
        settings: Settings,
        share: SenderShare | None = None,
    ) -> None:
        """`share` is that of a process that sends, and is read with each heartbeat."""
        self._settings = settings
        self._share = share
        self._database = database
        self._also = also
        self._turned = turned
        self._row: dict[str, Any] = {
            "name": process_name(),
            "roles": ",".join(roles),
            "host": host_name(),
            "version": VERSION,
            "start_time": now(),
        }
        self._watch = ClockWatch()
        self._clock_difference: float | None = None
        self._has_begun, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Starts the thread. A process that sends has its share then, unless the database is away."""
        self._thread.start()
        if self._share is not None:
            self._has_begun.wait(WAIT)

    def stop(self) -> None:
        """Ends the thread, which deletes the row. Waits for that only for a moment: it is deleted by others in time."""
        self._stopped.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._try(self.write)
            self._has_begun.set()
            self._write_also(False)
            self._stopped.wait(PERIOD)
        self._write_also(True)
        self._try(self.delete)

    def _write_also(self, at_end: bool) -> None:
        also = self._also
        if also is not None:
            self._try(lambda: also(at_end))

    @staticmethod
    def _try(action: Any) -> None:
        try:
            with bounded_connection.limit_waits(WAIT):
                action()
        except SQLAlchemyError as error:
            logger.debug(
                "cannot write the heartbeat for now: %s", error
            )  # whoever works logs that the database is away
        except Exception:
            logger.exception("cannot write the heartbeat for now")

    def write(self) -> None:
        """Writes one, and deletes the rows of processes that are gone. Raises `SQLAlchemyError`."""
        seen_time = now() - timedelta(seconds=time.monotonic() - self._turned())
        with self._database.write() as transaction:
            connection = transaction.connection()
            statement = update(RunningProcess).where(RunningProcess.name == self._row["name"])
            changing = {
                "seen_time": seen_time,
                "secret_keys": self._known_keys(),
                "clock_difference": self._clock_difference,
            }
            if not self._writes(connection, statement.values(changing)):
                self._writes(connection, insert(RunningProcess).values(**self._row, **changing))
            connection.execute(_deletion_of_old(now()))
            if self._share is not None:
                self._share.note(_sending_processes(connection), self._row["name"])

    def _writes(self, connection: Connection, statement: Update | Insert) -> bool:
        """Whether the statement has written the row."""
        is_written, difference = write_and_compare(connection, statement)
        if difference is not None:
            self._clock_difference = difference.seconds
            self._watch.note(difference)
        return is_written

    def _known_keys(self) -> str:
        """The first one is what this process signs with, also after another was generated."""
        return ",".join(map(short_fingerprint, self._settings.secret_keys))

    def delete(self) -> None:
        """Deletes the row. Raises `SQLAlchemyError`."""
        with self._database.write() as transaction:
            statement = delete(RunningProcess).where(RunningProcess.name == self._row["name"])
            transaction.connection().execute(statement)


def _sending_processes(connection: Connection) -> list[str]:
    """The names of the processes that send, the oldest first."""
    live = select(RunningProcess.name, RunningProcess.roles).where(RunningProcess.seen_time >= now() - SILENT)
    rows = connection.execute(live.order_by(RunningProcess.start_time, RunningProcess.name))
    return [name for name, roles in rows if SENDS in roles.split(",")]


def _deletion_of_old(moment: datetime) -> Delete:
    """Deletes the rows of processes that are gone. Those of a host without a later one stay for a while: they tell what
    was lost."""
    other, old = aliased(RunningProcess), RunningProcess.seen_time < moment - EXPIRY_AGE
    has_later = exists().where(other.host == RunningProcess.host, other.seen_time >= moment - EXPIRY_AGE)
    newest = select(other.name).where(other.seen_time < moment - EXPIRY_AGE).order_by(other.seen_time.desc())
    is_lost_long = RunningProcess.seen_time < moment - LOST_AGE
    rest = RunningProcess.name.not_in(newest.limit(MAX_LOST))
    return delete(RunningProcess).where(old, or_(has_later, is_lost_long, rest))
