"""The worker process: waits for wake-ups and calls the job doors, one at a time, in its own process.

    python -m jobs.worker sends                  # one of SEND_WORKERS
    python -m jobs.worker webhooks maintenance   # one per installation

Life: it does not fork per job, so database, Redis and mail connections stay warm. It outlives Redis: when that goes
away it tries again, more and more slowly, up to every two seconds. On SIGTERM or SIGINT it sets `services.stopping`,
at which a job ends after the message in its hands, and then leaves.

Queues that must not wait for each other belong to different processes: a webhook receiver may take 30 seconds to
answer, and a password reset must not stand behind it.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError, StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from rq.utils import as_text
from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.outage import log_failure
from app.inbound.smpp import incoming_handler
from app.infrastructure.queueing import JOBS, SENDS
from app.sends.delivery.sender_worker import close_sender_worker, sender_worker_of
from app.services import Services, connect_redis
from app.transports.base import TransportUrlError
from jobs.runtime import services

logger = logging.getLogger("jobs.worker")

WORKER_TTL = 45
"""RQ waits 15 seconds less than this for a job, and takes 10 seconds more than that of silence for a dead server."""
LONGEST_PAUSE = 2.0
SILENCE = 30.0
"""Seconds between two lines about the same outage."""


class Stop:
    """The wish to end, as a signal brings it."""

    def __init__(self, stopping: threading.Event) -> None:
        self.requested = False
        self._stopping = stopping
        self._waiting = False

    def catch_signals(self) -> None:
        """Once for the process; a second signal changes nothing, the end is already under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """A block without work in hand: a signal leaves it at once, by `StopRequested`."""
        self._waiting = True
        try:
            if self.requested:
                raise StopRequested
            yield
        finally:
            self._waiting = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        # The event's lock may be held by the very code that this signal interrupts: another thread waits for it.
        threading.Thread(target=self._stopping.set, daemon=True).start()
        if self._waiting:
            raise StopRequested


class Worker(SimpleWorker):
    """RQ's worker without forks, time limits, pickles, records and remote commands, stopping between two messages."""

    death_penalty_class = TimerDeathPenalty  # knows "no time limit"; the other one sets an alarm
    max_connection_wait_time = LONGEST_PAUSE
    last_cleaned_at: datetime | None  # type: ignore[assignment]  # RQ types it by its first value

    def __init__(self, queues: Sequence[str], connection: Redis, stop: Stop) -> None:
        self._stop = stop
        super().__init__(
            [Queue(name, connection=connection, serializer=JSONSerializer) for name in queues],
            connection=connection,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL,
            log_job_description=False,
        )

    def _set_ip_address(self, connection: Redis) -> None:
        """RQ shows it in its own listings. redis-py cannot read it where the path of the server's socket has spaces."""
        try:
            super()._set_ip_address(connection)
        except ValueError:
            self.ip_address = "unknown"

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Waits for a wake-up; one that is taken and lost here is made up for by the next sweep."""
        with self._stop.may_interrupt():
            return super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Calls the door. What it finds to do, and what becomes of that, is in the tables: RQ's records of a job's way
        would be fifty commands for each wake-up, half of them before the first message leaves.

        Only the doors are called, whatever else somebody may have put into the queue.
        """
        with self.connection.pipeline(transaction=False) as commands:
            commands.lrem(queue.intermediate_queue_key, 1, job.id)
            commands.delete(job.key)
            commands.execute()
        try:
            is_ours = job.func_name in JOBS.values()
        except DeserializationError:
            is_ours = False
        if not is_ours:
            logger.error("the job %s of the queue %s is not ours, and is dropped", job.id, queue.name)
            return
        try:
            job.func()
        except SQLAlchemyError as error:
            log_failure(logger, f"the job {job.func_name} failed", error)
        except Exception:
            logger.exception("the job %s failed; the next sweep finds what it has left", job.func_name)

    def _install_signal_handlers(self) -> None:
        """Ours are installed: RQ's would talk to Redis in the middle of a send."""

    def run_maintenance_tasks(self) -> None:
        """RQ's own would call whatever a job in one of its registries names as its callback; nothing of ours is ever in
        a registry. What is left to tidy up is a wake-up that a worker took and died with before it had removed it."""
        for queue in self.queues:
            taken = self.connection.lrange(queue.intermediate_queue_key, 0, -1)
            self.connection.delete(queue.intermediate_queue_key, *(Job.key_for(as_text(job_id)) for job_id in taken))
        self.last_cleaned_at = now()

    def subscribe(self) -> None:
        """No remote commands: nobody sends them, and listening costs a thread."""

    def unsubscribe(self) -> None:
        """The counterpart."""


def run(parts: Services, queues: Sequence[str]) -> None:
    """Works until the process is asked to end."""
    stop = Stop(parts.stopping)
    stop.catch_signals()
    connection = connect_redis(parts.settings.redis_url)
    pause, told = 0.1, -SILENCE
    while not stop.requested:
        began = time.monotonic()
        try:
            _work(parts, queues, connection, stop)
        except RedisError as error:
            if began - told >= SILENCE:
                logger.warning("Redis does not answer, trying again until it does: %s", error)
                told = began
        # RQ leaves its loop at many kinds of trouble; one that worked for a while starts over at once.
        pause = 0.1 if time.monotonic() - began > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
        _pause(stop, pause)


def _work(parts: Services, queues: Sequence[str], connection: Redis, stop: Stop) -> None:
    """Begins with a look: this worker may stand in for one that died, whose work is claimed and so not due."""
    worker: Any = Worker(queues, connection, stop)
    for name in queues:
        parts.wake_ups.wake(name)
    worker.work(logging_level=None)


def _pause(stop: Stop, seconds: float) -> None:
    try:
        with stop.may_interrupt():
            time.sleep(seconds)
    except StopRequested:
        pass


def _open_station(parts: Services) -> None:
    """Now, not at the first message: an sms gateway may have receipts and replies for us while there is nothing to
    send. A transport that cannot be used is one line and exit status 2, like any wrong setting."""
    try:
        sender_worker_of(parts, incoming_handler(parts))
    except TransportUrlError as error:
        print(error)
        raise SystemExit(2) from None


def main(arguments: Sequence[str]) -> None:
    """The queues to serve are the arguments; without any it serves all."""
    unknown = [name for name in arguments if name not in JOBS]
    if unknown:
        print(f"no such queue: {', '.join(unknown)}; there are {', '.join(JOBS)}", file=sys.stderr)
        raise SystemExit(2)
    parts = services()
    queues = list(arguments) or list(JOBS)
    if SENDS in queues:
        _open_station(parts)
    logger.info("worker started", extra={"queues": queues})
    for queue in queues:
        # A first look: no sweep sees what a killed predecessor held before its lease has run out.
        parts.wake_ups.wake(queue)
    run(parts, queues)
    close_sender_worker(parts)
    parts.database.close()
    logger.info("worker stopped")


if __name__ == "__main__":
    main(sys.argv[1:])
