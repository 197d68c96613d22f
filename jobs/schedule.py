"""The scheduler process: `python -m jobs.schedule`.

Twice a second it looks whether there is work that nobody was woken for (app/maintenance/sweeps.py), and wakes the
workers; so a lost wake-up, an emptied Redis or a dead worker costs half a second, not a message. Slower jobs stand in a
table. It does no work itself and keeps no state: two schedulers at once do no harm, and one that restarts does the slow
jobs once more.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure
from app.infrastructure.queueing import MAINTENANCE, SENDS, WEBHOOKS
from app.maintenance import sweeps
from app.services import Services
from jobs.runtime import services

logger = logging.getLogger("jobs.schedule")

TICK = 0.5


@dataclass(slots=True)
class Periodic:
    """A job that is wanted every `seconds`, and when it is due by the monotonic clock."""

    queue: str
    seconds: float
    due: float = 0.0


def periodic_jobs() -> list[Periodic]:
    """The table of slow jobs; each runs soon after a start, too."""
    return [Periodic(MAINTENANCE, 3600)]


def tick(parts: Services, table: list[Periodic]) -> None:
    """One look. A database that does not answer is told in the log, and looked at again."""
    try:
        _wake_for_work(parts)
    except SQLAlchemyError as error:
        log_failure(logger, "cannot look for work", error)
    for job in table:
        if job.due <= time.monotonic():
            job.due = time.monotonic() + job.seconds
            parts.wake_ups.wake(job.queue)


def _wake_for_work(parts: Services) -> None:
    with parts.database.read() as session:
        sends = sweeps.sends_waiting(session)
        events = sweeps.events_waiting(session)
        replies = sweeps.replies_waiting(session)
    if sends:
        parts.wake_ups.wake(SENDS)
    if events:
        parts.wake_ups.wake(WEBHOOKS)
    if replies:
        parts.wake_ups.wake(MAINTENANCE)


def run(parts: Services) -> None:
    """Ticks until the process is asked to end."""
    table = periodic_jobs()
    while not parts.stopping.wait(TICK):
        tick(parts, table)


def main() -> None:
    """Ends on SIGTERM and SIGINT within a tick."""
    parts = services()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Another thread sets it: the wait that this signal interrupts may hold the event's lock.
        signal.signal(number, lambda *_: threading.Thread(target=parts.stopping.set).start())
    logger.info("scheduler started")
    run(parts)
    parts.database.close()
    logger.info("scheduler stopped")


if __name__ == "__main__":
    main()
