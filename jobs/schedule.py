"""The scheduler process: `python -m jobs.schedule`.

Twice a second it checks whether there is work without a wake-up (app/maintenance/sweeps.py), and wakes the workers; so
a lost wake-up, an emptied Redis or a dead worker costs half a second, not a message. Slower jobs are in a table. It
does no work itself and keeps no state: two schedulers at once do no harm, and one that restarts runs the slow jobs once
more.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from app.audit.seals import has_unsealed
from app.bulk_actions.run import has_due as has_due_actions
from app.clock import now, seconds_to_next_month
from app.db.outage import log_failure
from app.events.batches import has_due as has_due_events
from app.inbound.simulated import has_due as has_due_simulations
from app.inbound.smpp import has_overdue_parts
from app.infrastructure import liveness
from app.infrastructure.heartbeat import Heartbeat
from app.infrastructure.redis_client import AUTOMATIONS, MAINTENANCE, SENDS, WEBHOOKS
from app.maintenance import sweeps
from app.network_checks.run import has_due as has_due_checks
from app.sends.queue_begin import publish_begin
from app.services import Services
from app.sign_in.due import has_due as has_due_sign_ins
from jobs.runtime import process_services
from jobs.stop import Stop

logger = logging.getLogger("jobs.schedule")

TICK = 0.5
"""Seconds between two sweeps."""


@dataclass(slots=True)
class Periodic:
    """A job that runs every `seconds` and at the turn of each month, and when it is due by the monotonic clock."""

    queue: str
    seconds: float
    due: float = 0.0

    def wait(self, moment: datetime) -> float:
        """Seconds until it runs again after a run at that moment."""
        return min(self.seconds, seconds_to_next_month(moment))


def periodic_jobs() -> list[Periodic]:
    """The slow jobs; each also runs right after the start."""
    return [Periodic(MAINTENANCE, 3600)]


def tick(
    services: Services,
    table: list[Periodic],
    queue: sweeps.SendQueueSweep | None = None,
    runs: sweeps.RunSweep | None = None,
) -> None:
    """One sweep; `queue` and `runs` are the memory of earlier ones. If the database is unavailable, that is logged, and
    the next tick sweeps again. While Redis is, slow jobs stay due."""
    try:
        with sweeps.measured_sweep("queues"):
            _wake_for_work(services, queue or sweeps.SendQueueSweep(), runs or sweeps.RunSweep())
    except SQLAlchemyError as error:
        log_failure(logger, "cannot look for work", error)
    for job in table:
        if job.due <= time.monotonic() and services.wake_ups.wake(job.queue):
            job.due = time.monotonic() + job.wait(now())


def _wake_for_work(services: Services, queue: sweeps.SendQueueSweep, runs: sweeps.RunSweep) -> None:
    with services.database.read() as session:
        sends = queue.finds_work(session)
        events = has_due_events(session, services.settings)
        replies = has_overdue_parts(session)
        has_runs = runs.finds_work(session)
        simulations = has_due_simulations(session)
        actions = has_due_actions(session)
        checks = has_due_checks(session)
        sign_ins = has_due_sign_ins(session, services.settings)
        seals = has_unsealed(session)
    publish_begin(services.redis, queue.begin)
    if sends:
        services.wake_ups.wake(SENDS)
    if events:
        services.wake_ups.wake(WEBHOOKS)
    if replies:
        services.wake_ups.wake(MAINTENANCE)
    if has_runs or simulations or actions or checks or sign_ins or seals:
        services.wake_ups.wake(AUTOMATIONS)


def run(services: Services) -> None:
    """Sweeps until the process is asked to stop."""
    table, queue, runs = periodic_jobs(), sweeps.SendQueueSweep(), sweeps.RunSweep()
    while not services.stopping.wait(TICK):
        liveness.report()
        tick(services, table, queue, runs)


def main() -> None:
    """Ends on SIGTERM and SIGINT within a tick; SIGUSR2 replaces it by newer code."""
    services = process_services()
    stop = Stop(services.stopping)
    stop.catch_signals()
    logger.info("scheduler started")
    heartbeat = Heartbeat(services.database, ["scheduler"], settings=services.settings)
    heartbeat.start()
    liveness.ready()
    run(services)
    heartbeat.stop()
    services.close()
    logger.info("scheduler stopped")
    stop.end()


if __name__ == "__main__":
    main()
