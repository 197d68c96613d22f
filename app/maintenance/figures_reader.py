"""Reads the figures of the installation for scrapes, so that these cost the same however much work is left, and never
wait for a database that hangs (docs/monitoring/metrics.md#figures-of-the-installation).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.db import bounded_connection
from app.db.outage import log_failure
from app.db.queue import FULL_SHARE
from app.db.schema import schema_of
from app.maintenance.figures import Figures, read_figures
from app.services import Services

WAIT = 0.25
"""Seconds that a scrape waits for new figures; then it shows those before. It does not wait at all if these took
longer: it would in vain, and takes the same time however much work is left."""
LEAST_INTERVAL = 1.0
"""Seconds between the starts of two readings, however often scrapers come."""
MOST_INTERVAL = 30.0
"""Seconds from a reading to the next one, however long it took: an alert must notice that its condition has ended."""
RETRY_INTERVAL = 2.0
"""Seconds from a reading that failed to the next one."""
DATABASE_SECONDS = 2.0
"""Seconds within which the database answers, or counts as away."""
MAX_AGE = 600.0
"""Seconds; older figures are not shown."""

logger = logging.getLogger(__name__)


class Reading(NamedTuple):
    """Figures, when they were taken on the monotonic clock, and how long the database took for them."""

    figures: Figures
    taken: float
    seconds: float
    database_up: bool
    redis_up: bool


class FiguresReader:
    """One per process: one reading at a time, in a thread and over a connection of its own, which takes at most
    `FULL_SHARE` of the time, unless `MOST_INTERVAL` is over."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._running: threading.Event | None = None
        self._due = 0.0
        self._latest: Reading | None = None

    def latest(self) -> Reading | None:
        """The newest figures; None if there are none that are new enough."""
        with self._lock:
            if self._running is None and time.monotonic() >= self._due:
                self._running = threading.Event()
                threading.Thread(target=self._run, args=(self._running,), name="figures", daemon=True).start()
            running = self._running
        reading = self._latest
        if running is not None and (reading is None or reading.seconds <= WAIT):
            running.wait(WAIT)
        reading = self._latest
        return reading if reading and time.monotonic() - reading.taken <= MAX_AGE else None

    def _run(self, ended: threading.Event) -> None:
        began, pause = time.monotonic(), RETRY_INTERVAL
        try:
            self._latest = reading = self._read(began)
            if reading.database_up:
                pause = min(reading.seconds / FULL_SHARE, MOST_INTERVAL)
        except Exception:
            logger.exception("the figures for /metrics cannot be read")
        finally:
            with self._lock:
                self._running = None
                self._due = max(began + LEAST_INTERVAL, time.monotonic() + pause)
            ended.set()

    def _read(self, began: float) -> Reading:
        """A database that does not answer has no figures; whatever else fails is raised. Only what the database does
        counts as the time that they took: a Redis that hangs must not keep them from being read again soon."""
        redis_up = self._redis_answers()
        started = time.monotonic()
        try:
            with bounded_connection.limit_waits(DATABASE_SECONDS), self._services.database.read() as session:
                schema_of(session.connection())
            with self._services.database.read() as session:
                figures = read_figures(session, self._services.settings)
        except SQLAlchemyError as error:
            log_failure(logger, "no figures for /metrics", error)
            return Reading({}, began, time.monotonic() - started, database_up=False, redis_up=redis_up)
        return Reading(figures, began, time.monotonic() - started, database_up=True, redis_up=redis_up)

    def _redis_answers(self) -> bool:
        try:
            return bool(self._services.redis.ping())
        except RedisError:
            return False
