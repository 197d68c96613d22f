"""Purging as work of a process: all stages, in a thread of their own (docs/retention.md), and before them what
forgetting has left in the files of the database (app/db/remains.py).

A worker runs its jobs one after the other, and webhooks must not wait until millions of recipients are purged, or
sampled for statistics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.history_ranges import has_ranges
from app.db.outage import log_failure
from app.db.remains import RemainsCleaner
from app.maintenance import history
from app.maintenance.sweeps import measured_sweep
from app.retention.periods import Stage, longest, periods, purged_by_sends
from app.retention.slices import purge
from app.services import Services

END_SECONDS = 5.0
"""Seconds that a process waits for the last slice when it ends."""

logger = logging.getLogger(__name__)


class Purger:
    """The purging of one process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._cleaner = RemainsCleaner(services.database)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Purges what is overdue, unless it is being done already."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="purging", daemon=True)
            thread.start()
            self._thread = thread

    def wait(self, seconds: float = END_SECONDS) -> bool:
        """Waits until it has ended, which it soon does when the process is asked to stop; returns whether it has."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        _attempt("cleaning the files of the database", self._cleaner.clean)
        _attempt("purging", lambda: purge_all(self._services))


def _attempt(name: str, work: Callable[[], None]) -> None:
    """Work that keeps no other from being done when it fails."""
    try:
        work()
    except SQLAlchemyError as error:
        log_failure(logger, f"{name} was interrupted; it continues within the hour", error)
    except Exception:
        logger.exception("%s failed", name)


def purge_all(services: Services) -> None:
    """Purges content and recipients past their retention."""
    with measured_sweep("purging"):
        moment = now()
        for stage in Stage:
            with services.database.read() as session:
                account_periods = periods(session, services.settings, stage)
                in_ranges = has_ranges(session)
            most = longest(account_periods)
            if stage is Stage.RECIPIENTS and in_ranges and most is not None:
                history.drop_before(services, moment - most)
            purge(services, stage, purged_by_sends(account_periods, stage, in_ranges=in_ranges), moment)
