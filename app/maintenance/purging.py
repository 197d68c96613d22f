"""Purging as work of a process: all stages, in a thread of their own (docs/operations.md#retention).

A worker runs its jobs one after the other, and webhooks must not wait until millions of recipients are purged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.history_ranges import has_ranges
from app.db.outage import log_failure
from app.maintenance import history
from app.maintenance.sweeps import measured_sweep
from app.retention.periods import Period, Stage, periods
from app.retention.purge import purge
from app.services import Services

WHOLE_RANGES_FROM = timedelta(days=90)
"""From this retention on, waiting for the end of a month is short beside it."""
END = 5.0
"""Seconds that a process waits for the last slice when it ends."""

logger = logging.getLogger(__name__)


class Purger:
    """The purging of one process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Purges what is overdue, unless it is being done already."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="purging", daemon=True)
            self._thread.start()

    def wait(self, seconds: float = END) -> bool:
        """Waits until it has ended, which it soon does when the process is asked to stop; returns whether it has."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            purge_all(self._services)
        except SQLAlchemyError as error:
            log_failure(logger, "purging was interrupted, and goes on within the hour", error)
        except Exception:
            logger.exception("purging failed")


def purge_all(services: Services) -> None:
    """Purges content and recipients past their retention."""
    with measured_sweep("purging"):
        moment = now()
        for stage in Stage:
            with services.database.read() as session:
                of_accounts: Sequence[Period] = periods(session, services.settings, stage)
            if stage is Stage.RECIPIENTS:
                of_accounts = _drop_ranges(services, of_accounts, moment)
            purge(services, stage, of_accounts, moment)


def _drop_ranges(services: Services, of_accounts: Sequence[Period], moment: datetime) -> Sequence[Period]:
    """Drops the ranges that no account keeps any more. Returns the accounts whose recipients are deleted one by one:
    those that keep them for a shorter time than others, for which the range stays, or for a short time anyway."""
    if not has_ranges(services.database):
        return of_accounts
    longest = _longest(of_accounts)
    if longest is not None:
        history.drop_before(services, moment - longest)
    return [one for one in of_accounts if not (one.retention == longest and _is_long(one.retention))]


def _longest(of_accounts: Sequence[Period]) -> timedelta | None:
    """None: for ever. Without accounts, likewise."""
    known = [one.retention for one in of_accounts if one.retention is not None]
    return max(known) if known and len(known) == len(of_accounts) else None


def _is_long(retention: timedelta | None) -> bool:
    return retention is None or retention >= WHOLE_RANGES_FROM
