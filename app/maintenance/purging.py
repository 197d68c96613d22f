"""The maintenance as work of a process, in threads, which do not wait for each other: purging, all stages
(docs/retention.md); cleaning, with what locks the tables that it uses; and recording what a person has written.

A worker runs its jobs one after the other, and webhooks must not wait until millions of recipients are purged, or
sampled for statistics. None of this shows a sign of life, which is for the main thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.history_ranges import has_ranges
from app.db.outage import log_failure
from app.db.remains import RemainsCleaner
from app.inbound import smpp
from app.maintenance import history, sweeps
from app.maintenance.sweeps import measured_sweep
from app.retention.periods import Stage, longest, periods, purged_by_sends
from app.retention.slices import purge
from app.services import Services

END_SECONDS = 5.0
"""Seconds that a process waits for the last slice when it ends."""

logger = logging.getLogger(__name__)


class Purger:
    """The maintenance of one process."""

    def __init__(self, services: Services) -> None:
        cleaner = RemainsCleaner(services.database)
        self._works: dict[str, Sequence[Callable[[], object]]] = {
            "recording incomplete replies": [partial(smpp.flush_overdue, services)],
            "purging": [partial(purge_all, services)],
            "cleaning": [partial(sweeps.clean, services), partial(drop_old_ranges, services), cleaner.clean],
        }
        self._threads: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """Begins all of it, but for what is being done already."""
        for name, works in self._works.items():
            if name not in self._threads or not self._threads[name].is_alive():
                thread = threading.Thread(target=_attempt, args=(name, works), name=name, daemon=True)
                thread.start()
                self._threads[name] = thread

    def wait(self, seconds: float = END_SECONDS) -> bool:
        """Waits until all has ended, which it soon does when the process is asked to stop; returns whether it has."""
        end = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads.values())


def _attempt(name: str, works: Sequence[Callable[[], object]]) -> None:
    """The works of a thread, one after the other, which tell in the log how they have failed."""
    for work in works:
        try:
            work()
        except SQLAlchemyError as error:
            log_failure(logger, f"{name} was interrupted; it continues within the hour", error)
        except Exception:
            logger.exception("%s failed", name)


def purge_all(services: Services) -> None:
    """Purges content and recipients past their retention, but for those of whole ranges."""
    with measured_sweep("purging"):
        moment = now()
        for stage in Stage:
            with services.database.read() as session:
                account_periods = periods(session, services.settings, stage)
                in_ranges = has_ranges(session)
            purge(services, stage, purged_by_sends(account_periods, stage, in_ranges=in_ranges), moment)


def drop_old_ranges(services: Services) -> None:
    """Drops the ranges of the history of which all accounts' recipients are past their retention."""
    with measured_sweep("dropping"):
        with services.database.read() as session:
            most = longest(periods(session, services.settings, Stage.RECIPIENTS)) if has_ranges(session) else None
        if most is not None:
            history.drop_before(services, now() - most)
