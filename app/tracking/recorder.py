"""Recording visits after the response, so that clients of pixels and links do not wait for the database.

Visits are queued in the process, and a thread writes them in batches: the first at once, and those that arrive
meanwhile in the next batch. While the database is unavailable they stay queued, up to a limit. A process that shuts
down writes the queued visits; one that is killed loses them (docs/tracking.md).
"""

from __future__ import annotations

import atexit
import itertools
import logging
import threading
import time
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from app.db.database import Database
from app.db.outage import is_unavailable, log_failure
from app.tracking.record import record_visits
from app.tracking.visits import Visit

logger = logging.getLogger(__name__)

VISITS = "tms.visits"
"""The key of the process's recorder among the extensions of the application."""

MAX_WAITING_VISITS = 10_000
"""Queued visits, about ten megabytes; further ones are dropped."""
MAX_WAITING_OF_RECIPIENT = 200
"""Queued visits of one recipient, so that a link that is requested in a loop does not displace the visits of others."""
BATCH_SIZE = 200
"""Recipients whose visits are written in one transaction."""
RETRY_DELAY = 1.0
"""Seconds before the next attempt after the database failed."""
SHUTDOWN_RETRY_DELAY = 0.1
"""Seconds until a failed write is tried again while the process ends."""
SHUTDOWN_TIMEOUT = 3.0
"""Seconds for the last writes when the process shuts down; it is killed soon after."""


class Recorder:
    """The recorder of one process. It starts its thread with the first visit, so the process may fork before that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._waiting: dict[int, list[Visit]] = {}
        """Id of a recipient -> its visits; the recipients are in the order of their first visits."""
        self._count = self._lost = 0
        """Visits that are not written, also those that were given up at the end, and visits that were dropped."""
        self._thread: threading.Thread | None = None
        self._end: float | None = None
        """Deadline of the last writes, once the process shuts down."""

    def put(self, visit: Visit) -> None:
        """Queues the visit; never waits."""
        with self._changed:
            waiting = self._waiting.get(visit.recipient_id, ())
            if self._count >= MAX_WAITING_VISITS or len(waiting) >= MAX_WAITING_OF_RECIPIENT:
                self._lost += 1
                return
            self._waiting.setdefault(visit.recipient_id, []).append(visit)
            self._count += 1
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, daemon=True, name="visits")
        try:
            thread.start()
        except RuntimeError:  # no memory is left for it: the next visit starts one
            logger.exception("visits wait")
            return
        self._thread = thread
        atexit.register(self.close)

    def flush(self, seconds: float) -> bool:
        """Waits until all visits are written; False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)

    def close(self, seconds: float = SHUTDOWN_TIMEOUT) -> None:
        """Writes the waiting visits, and ends the thread."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._end = time.monotonic() + seconds
            self._changed.notify_all()
        if thread is None:
            return
        thread.join(seconds)
        atexit.unregister(self.close)
        with self._changed:
            if not thread.is_alive():  # else it would go on for ever
                self._end = None
            if self._count:
                logger.error("%s visits were not recorded before the end of the process", self._count)

    def _run(self) -> None:
        while visits := self._next():
            given_up = self._write(visits)
            with self._changed:
                self._count -= len(visits) - given_up
                self._changed.notify_all()

    def _next(self) -> list[Visit]:
        """The visits of the recipients that have waited longest, once there are any; none when the process shuts
        down."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._end is not None)
            if self._lost:
                logger.warning("%s visits were lost: too many came at once", self._lost)
                self._lost = 0
            chosen = [self._waiting.pop(recipient_id) for recipient_id in list(self._waiting)[:BATCH_SIZE]]
        return sorted(itertools.chain.from_iterable(chosen), key=lambda visit: visit.moment)

    def _write(self, visits: Sequence[Visit]) -> int:
        """Writes all of them together, or each alone if one of them cannot be written. Returns how many were given up
        because the process ends."""
        while True:
            try:
                self._database.transact(lambda transaction: record_visits(transaction, visits))
                return 0
            except Exception as error:
                if not (isinstance(error, SQLAlchemyError) and is_unavailable(error)):
                    return self._write_apart(visits, error)
                log_failure(logger, f"{len(visits)} visits wait", error)
                if not self._has_time():
                    return len(visits)

    def _write_apart(self, visits: Sequence[Visit], error: Exception) -> int:
        if len(visits) > 1:
            return sum(self._write([visit]) for visit in visits)
        (visit,) = visits
        extra = {"recipient_id": visit.recipient_id}
        logger.error("cannot record that a recipient %s", visit.step, exc_info=error, extra=extra)
        return 0

    def _has_time(self) -> bool:
        """Waits for the retry delay; returns whether there is time for another attempt."""
        with self._changed:
            if self._end is None:
                self._changed.wait_for(lambda: self._end is not None, RETRY_DELAY)
            else:
                time.sleep(SHUTDOWN_RETRY_DELAY)
            return self._end is None or time.monotonic() < self._end
