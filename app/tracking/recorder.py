"""Writing visits after the answer: who opens a page waits for no database.

Visits wait in the process, and a thread writes them, many in one transaction: the first at once, and what came
meanwhile with the next. While the database does not take them they are kept, up to a bound. A process that ends in
order writes what waits; one that is killed loses it (docs/tracking.md).
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

MOST_WAITING = 10_000
"""Visits that wait at once, some ten megabytes; those that come on top of them are lost."""
MOST_OF_ONE = 200
"""The same for one recipient, so that a link which is followed without end costs no other its place."""
CHUNK = 200
"""Recipients whose visits are written in one transaction."""
TROUBLE_PAUSE = 1.0
"""Seconds before a database that failed is tried again."""
LAST_PAUSE = 0.1
"""The same while the process ends."""
LAST_SECONDS = 3.0
"""For writing what waits when the process ends; it is stopped by force soon after."""


class Recorder:
    """That of one process. It starts its thread with the first visit, so a fork may come before that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._waiting: dict[int, list[Visit]] = {}
        """By recipient; those who came first stand first."""
        self._count = self._lost = 0
        """Visits that are not written yet, and those that found no place."""
        self._thread: threading.Thread | None = None
        self._end: float | None = None
        """When writing has to be over, once the process is about to end."""

    def put(self, visit: Visit) -> None:
        """Has the visit written soon. Waits for nothing."""
        with self._changed:
            waiting = self._waiting.get(visit.recipient_id, ())
            if self._count >= MOST_WAITING or len(waiting) >= MOST_OF_ONE:
                self._lost += 1
                return
            self._waiting.setdefault(visit.recipient_id, []).append(visit)
            self._count += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="visits")
                self._thread.start()
                atexit.register(self.close)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Waits until all is written; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Writes what waits, and ends the thread."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._end = time.monotonic() + seconds
            self._changed.notify_all()
        if thread is None:
            return
        thread.join(seconds)
        atexit.unregister(self.close)
        with self._changed:
            self._end = None
            if self._count:
                logger.error("%s visits were not recorded before the end of the process", self._count)

    def _run(self) -> None:
        while visits := self._next():
            self._write(visits)
            with self._changed:
                self._count -= len(visits)
                self._changed.notify_all()

    def _next(self) -> list[Visit]:
        """Those of the recipients that have waited longest, once there are any; none when the process ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._end is not None)
            if self._lost:
                logger.warning("%s visits were lost: too many came at once", self._lost)
                self._lost = 0
            chosen = [self._waiting.pop(recipient_id) for recipient_id in list(self._waiting)[:CHUNK]]
        return sorted(itertools.chain.from_iterable(chosen), key=lambda visit: visit.moment)

    def _write(self, visits: Sequence[Visit]) -> None:
        """All of them together; each alone where one cannot be written, so that the others are."""
        while True:
            try:
                self._database.transact(lambda transaction: record_visits(transaction, visits))
                return
            except Exception as error:
                if not (isinstance(error, SQLAlchemyError) and is_unavailable(error)):
                    self._write_apart(visits, error)
                    return
                log_failure(logger, f"{len(visits)} visits wait", error)
                if not self._has_time():
                    return

    def _write_apart(self, visits: Sequence[Visit], error: Exception) -> None:
        if len(visits) > 1:
            for visit in visits:
                self._write([visit])
            return
        (visit,) = visits
        extra = {"recipient_id": visit.recipient_id}
        logger.error("cannot record that a recipient %s", visit.step, exc_info=error, extra=extra)

    def _has_time(self) -> bool:
        """Lets a moment pass; tells whether another try may follow."""
        with self._changed:
            if self._end is None:
                self._changed.wait_for(lambda: self._end is not None, TROUBLE_PAUSE)
            else:
                time.sleep(LAST_PAUSE)
            return self._end is None or time.monotonic() < self._end
