"""Wake-ups: the one thing that Redis queues carry.

The recipients and events tables are the queues; a job holds no work, it only says "look". So a job may be lost (a sweep
looks every half second, app/maintenance/sweeps.py) or doubled (the second look finds nothing) without harm, and a
thousand accepted sends need one job. Inside `app` only this module knows RQ.
"""

from __future__ import annotations

import logging

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.serializers import JSONSerializer

from app.infrastructure.circuit_breaker import CircuitBreaker

SENDS = "sends"
WEBHOOKS = "webhooks"
MAINTENANCE = "maintenance"

JOBS = {
    SENDS: "jobs.sends.drain",
    WEBHOOKS: "jobs.webhooks.dispatch",
    MAINTENANCE: "jobs.maintenance.clean",
}
"""What a worker calls when it is woken. Names, not functions: `app` does not import `jobs`."""

NO_TIME_LIMIT = -1
"""A job ends its time slice by itself; a limit from outside could cut a send between the wire and its record."""


class WakeUps:
    """Wakes the workers of a queue."""

    def __init__(self, redis: Redis, breaker: CircuitBreaker | None = None) -> None:
        self._queues = {name: Queue(name, connection=redis, serializer=JSONSerializer) for name in JOBS}
        self._breaker = breaker or CircuitBreaker()

    def wake(self, queue: str) -> None:
        """Makes a worker look at its tables; call it after the commit of what it shall find.

        Nothing is added while a wake-up waits: whoever takes that one looks later than now, so it sees everything
        that is committed now. A worker that has taken its wake-up, and may have looked already, no longer counts.
        Never raises: without Redis the sweeps find the work, and for a second nobody tries again, so that a request
        does not wait for a server that is gone.
        """
        if self._breaker.is_open:
            return
        try:
            self._add_unless_waiting(self._queues[queue], JOBS[queue])
        except RedisError as error:
            self._breaker.open()
            logging.getLogger(__name__).warning("no wake-up for %s, a sweep will find the work: %s", queue, error)

    @staticmethod
    def _add_unless_waiting(queue: Queue, function: str) -> None:
        if queue.count == 0:
            queue.enqueue_call(function, timeout=NO_TIME_LIMIT)
