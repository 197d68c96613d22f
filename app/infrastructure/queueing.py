"""Wake-ups: the only jobs in the Redis queues.

The tables send_queue, events and automation_runs are the queues; a job has no content and only makes a worker check its
tables. So a job may be lost (a sweep checks every half second, app/maintenance/sweeps.py) or duplicated (the second
check finds nothing) without harm, and a thousand accepted sends need one job. Inside `app` only this module uses RQ.
"""

from __future__ import annotations

import logging

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.serializers import JSONSerializer

from app.infrastructure.metrics import WAKE_UPS
from app.infrastructure.redis_client import CircuitBreaker

SENDS = "sends"
WEBHOOKS = "webhooks"
MAINTENANCE = "maintenance"
AUTOMATIONS = "automations"

JOBS = {
    SENDS: "jobs.sends.drain",
    WEBHOOKS: "jobs.webhooks.dispatch",
    MAINTENANCE: "jobs.maintenance.clean",
    AUTOMATIONS: "jobs.automations.advance",
}
"""The function that a worker runs. Names, not functions: `app` does not import `jobs`."""

NO_TIME_LIMIT = -1
"""A job ends by itself after its time slice; a time limit could interrupt a send between transmission and record."""


class WakeUps:
    """Wakes the workers of a queue."""

    def __init__(self, redis: Redis, breaker: CircuitBreaker | None = None) -> None:
        self._queues = {name: Queue(name, connection=redis, serializer=JSONSerializer) for name in JOBS}
        self._breaker = breaker or CircuitBreaker()

    def wake(self, queue: str) -> None:
        """Makes a worker check its tables; call it after the commit.

        Adds nothing while a wake-up waits in the queue: the worker that takes it checks later than now, so it sees
        everything committed now. A wake-up that a worker has taken does not count: that worker may have checked
        already. Never raises: without Redis the sweeps find the work, and the circuit breaker stays open for a second,
        so that a request does not wait for a server that is down.
        """
        if self._breaker.is_open:
            WAKE_UPS.labels(queue, "failed").inc()
            return
        try:
            is_added = self._add_unless_waiting(self._queues[queue], JOBS[queue])
            WAKE_UPS.labels(queue, "added" if is_added else "waiting").inc()
        except RedisError as error:
            self._breaker.open()
            WAKE_UPS.labels(queue, "failed").inc()
            logging.getLogger(__name__).warning("no wake-up for %s, a sweep will find the work: %s", queue, error)

    @staticmethod
    def _add_unless_waiting(queue: Queue, function: str) -> bool:
        if queue.count:
            return False
        queue.enqueue_call(function, timeout=NO_TIME_LIMIT)
        return True
