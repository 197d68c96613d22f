"""The worker process: waits for wake-ups and runs the jobs of its queues, one at a time, in its own process.

    python -m jobs.worker sends                  # one of SEND_WORKERS
    python -m jobs.worker webhooks maintenance   # one or more
    python -m jobs.worker automations            # the same

It does not fork per job, so that database, Redis and mail connections stay open. While Redis does not answer, it looks
for work every second, without wake-ups. On SIGTERM or SIGINT it sets `services.stopping`, at which a job ends
after the messages in flight, and then exits. On SIGUSR2 it does the same, and then runs the code that is installed now.

Queues that must not wait for each other belong to different processes: a webhook receiver may take 30 seconds to
answer, and a password reset must not wait for it. Maintenance may share a process: its job only begins threads.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout, DeserializationError, StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from rq.utils import as_text, import_attribute
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.outage import log_failure
from app.inbound.smpp import incoming_handler
from app.infrastructure import liveness
from app.infrastructure.heartbeat import Heartbeat
from app.infrastructure.redis_client import JOBS, MAINTENANCE, SENDS, connect_redis
from app.sends.delivery.sender_worker import close_sender_worker, sender_worker_of
from app.services import Services
from app.transports.base import TransportUrlError
from jobs.maintenance import purger
from jobs.runtime import process_services
from jobs.stop import Stop

logger = logging.getLogger("jobs.worker")

WORKER_TTL = 45
"""Seconds, and a minute more, after which RQ forgets a worker that has died."""
WAIT_SECONDS = 5
"""How long Redis is asked to wait for a job, again and again."""
ANSWER_SECONDS = 5
"""Seconds beyond the wait after which Redis is asked over a new connection: an answer may be lost."""
PROBE_SECONDS = 1.0
"""How long Redis may take to answer before the worker waits for wake-ups in it."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for work while Redis does not answer."""
LOG_INTERVAL = 30.0
"""Seconds between two log lines about the same outage."""


class Worker(SimpleWorker):
    """RQ's worker without forks, time limits, pickles, job records and remote commands; it stops between messages, and
    when Redis does not answer."""

    death_penalty_class = TimerDeathPenalty  # supports "no time limit"; the default one sets an alarm
    last_cleaned_at: datetime | None  # type: ignore[assignment]  # RQ types it by its first value

    def __init__(self, queues: Sequence[str], connection: Redis, stop: Stop) -> None:
        self._stop = stop
        self._outage: RedisError | None = None
        # The first queue with a wake-up always comes first. Busy webhooks are woken without a pause.
        ordered = sorted(queues, key=lambda name: name != MAINTENANCE)
        super().__init__(
            [Queue(name, connection=connection, serializer=JSONSerializer) for name in ordered],
            connection=connection,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL,
            log_job_description=False,
        )

    @property
    def dequeue_timeout(self) -> int:
        """Seconds of one wait for a job. RQ's own are minutes."""
        return WAIT_SECONDS

    @property
    def connection_timeout(self) -> int:
        """Seconds after which a command has failed."""
        return WAIT_SECONDS + ANSWER_SECONDS

    def _set_ip_address(self, connection: Redis) -> None:
        """RQ shows the address in its own listings. redis-py cannot read it if the path of the socket has spaces."""
        try:
            super()._set_ip_address(connection)
        except ValueError:
            self.ip_address = "unknown"

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, _max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Waits for a wake-up; one that is lost after it was taken is replaced by the next sweep. RQ's own would go on
        waiting while Redis does not answer."""
        with self._stop.may_interrupt(), self._leaving_rq():
            return self._next_wake_up(timeout)

    @contextmanager
    def _leaving_rq(self) -> Iterator[None]:
        """Has RQ leave its loop when Redis does not answer, without a word; `teardown` then raises why."""
        try:
            yield
        except (RedisConnectionError, RedisTimeoutError) as error:
            self._outage = error
            raise StopRequested from None

    def _next_wake_up(self, timeout: int | None) -> tuple[Job, Queue] | None:
        while True:
            self.heartbeat()
            if self.should_run_maintenance_tasks:
                self.run_maintenance_tasks()
            with suppress(DequeueTimeout):
                return Queue.dequeue_any(self.queues, timeout, self.connection, serializer=JSONSerializer)

    def teardown(self) -> None:
        """Tells Redis that the worker ends; raises the error for which it ends, if it is that Redis does not answer."""
        if self._outage is not None:
            raise self._outage
        super().teardown()  # type: ignore[no-untyped-call]

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """RQ calls it at each turn of its loop."""
        liveness.report()
        with self._leaving_rq():
            super().heartbeat(timeout, pipeline)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Runs the job. Its work and results are in the tables: RQ's own records of a job would cost fifty commands for
        each wake-up, half of them before the first message is sent.

        Only the functions in `JOBS` are called, whatever else is in the queue.
        """
        with self._leaving_rq(), self.connection.pipeline(transaction=False) as commands:
            commands.lrem(queue.intermediate_queue_key, 1, job.id)
            commands.delete(job.key)
            commands.execute()
        try:
            name = job.func_name
        except DeserializationError:
            name = None
        if name is None or name not in JOBS.values():
            logger.error("dropped the unknown job %s of the queue %s", job.id, queue.name)
            return
        _run_job(name)

    def _install_signal_handlers(self) -> None:
        """Installs no handlers: those of `Stop` are installed. RQ's would call Redis in the middle of a send."""

    def run_maintenance_tasks(self) -> None:
        """Deletes wake-ups whose worker died before it had removed them. RQ's own maintenance would call
        whatever a job in one of its registries names as its callback; our jobs are never in a registry."""
        for queue in self.queues:
            taken = self.connection.lrange(queue.intermediate_queue_key, 0, -1)
            self.connection.delete(queue.intermediate_queue_key, *(Job.key_for(as_text(job_id)) for job_id in taken))
        self.last_cleaned_at = now()

    def subscribe(self) -> None:
        """No remote commands: none are sent, and listening costs a thread."""

    def unsubscribe(self) -> None:
        """Nothing to unsubscribe from."""


def _run_job(name: str) -> None:
    """Calls the function of that name."""
    try:
        import_attribute(name)()
    except SQLAlchemyError as error:
        log_failure(logger, f"the job {name} failed", error)
    except Exception:
        logger.exception("the job %s failed; the next sweep finds the remaining work", name)


def run(services: Services, queues: Sequence[str], stop: Stop) -> None:
    """Works until the process is asked to stop: when it is woken, and every second while Redis does not answer."""
    redis_url = services.settings.redis_url
    connection = connect_redis(redis_url)
    last_logged = -LOG_INTERVAL
    while not stop.requested:
        liveness.report()
        start = time.monotonic()
        try:
            with connect_redis(redis_url, wait=PROBE_SECONDS) as probe:
                probe.ping()
            _work(services, queues, connection, stop)
        except RedisError as error:
            if start - last_logged >= LOG_INTERVAL:
                logger.warning(
                    "Redis does not answer; looking for work every %g s until it does: %s", LOOK_SECONDS, error
                )
                last_logged = start
        if not stop.requested:  # RQ has left its loop, as it does on many kinds of errors
            _look_for_work(queues)
        # A worker that has waited or worked for a while goes on at once.
        _sleep(stop, 0.1 if time.monotonic() - start > LOOK_SECONDS else LOOK_SECONDS)


def _look_for_work(queues: Sequence[str]) -> None:
    """Runs the jobs without being woken. Those of maintenance can wait: the scheduler knows when they are due."""
    for name in queues:
        if name != MAINTENANCE:
            _run_job(JOBS[name])


def _work(services: Services, queues: Sequence[str], connection: Redis, stop: Stop) -> None:
    """Starts with a wake-up: this worker may replace a dead one, whose rows are claimed and therefore not due."""
    worker: Any = Worker(queues, connection, stop)
    for name in queues:
        services.wake_ups.wake(name)
    worker.work(logging_level=None)


def _sleep(stop: Stop, seconds: float) -> None:
    try:
        with stop.may_interrupt():
            time.sleep(seconds)
    except StopRequested:
        pass


def _open_sender_worker(services: Services) -> None:
    """Opens the sender worker at the start, not at the first message: an SMS gateway may have receipts and replies
    while there is nothing to send. A transport URL that cannot be used is one line and exit status 2, like any invalid
    setting."""
    try:
        sender_worker_of(services, incoming_handler(services))
    except TransportUrlError as error:
        print(error)
        raise SystemExit(2) from None
    except OSError as error:
        logger.error("the sender's journal cannot be created yet: %s", error)


def main(arguments: Sequence[str]) -> None:
    """The queues to serve are the arguments; without any it serves all."""
    unknown = [name for name in arguments if name not in JOBS]
    if unknown:
        print(f"no such queue: {', '.join(unknown)}; there are {', '.join(JOBS)}", file=sys.stderr)
        raise SystemExit(2)
    services = process_services()
    stop = Stop(services.stopping)
    stop.catch_signals()  # before a gateway may deliver anything
    queues = list(arguments) or list(JOBS)
    share = services.sender_share if SENDS in queues else None
    heartbeat = Heartbeat(services.database, queues, settings=services.settings, share=share)
    heartbeat.start()
    if SENDS in queues:
        try:
            _open_sender_worker(services)
        except SystemExit:
            heartbeat.stop()
            raise
    logger.info("worker started", extra={"queues": queues})
    liveness.ready()
    for queue in queues:
        # A first wake-up: no sweep finds the rows of a killed predecessor before their leases have expired.
        services.wake_ups.wake(queue)
    run(services, queues, stop)
    heartbeat.stop()
    purger().wait()
    close_sender_worker(services)
    services.close()
    logger.info("worker stopped")
    stop.end()


if __name__ == "__main__":
    main(sys.argv[1:])
