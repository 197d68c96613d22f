"""The worker process: it does not fork, ends on a signal only, and never in the middle of a message."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.exceptions import RedisError
from rq import Callback, Queue
from rq.exceptions import StopRequested
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.serializers import DefaultSerializer, JSONSerializer

from app.infrastructure.redis_client import MAINTENANCE, SENDS, WEBHOOKS, WakeUps, connect_redis
from jobs.stop import Stop
from jobs.worker import Worker
from tests.jobs import worker_process
from tests.jobs.worker_process import LONG_PAUSES, MARK
from tests.support.forked import ForkedProcess
from tests.support.redis_process import RedisProcess
from tests.support.servers import short_folder, wait_until


@dataclass
class WorkerBench:
    """A Redis, a worker process, and the progress that its jobs record."""

    folder: Path
    redis: RedisProcess
    process: ForkedProcess = field(init=False)

    def start_worker(self, *options: str) -> None:
        """Starts a worker after another one has ended. It drains once by itself, because the other may have left
        work."""
        self.process = ForkedProcess(self.folder / "log", worker_process.main, self.folder, self.redis.url, *options)

    def wake(self) -> None:
        with connect_redis(self.redis.url) as client:
            WakeUps(client).wake(SENDS)

    def wait_until_woken(self) -> None:
        """Waits until a wake-up is taken and worked: the worker waits in Redis again."""
        with connect_redis(self.redis.url) as client:
            WakeUps(client).wake(SENDS)
            queue = Queue(SENDS, connection=client, serializer=JSONSerializer)
            wait_until(lambda: queue.count == 0, "the wake-up is taken")
        wait_until(lambda: self.notes()[-1:] == ["ended"], "the wake-up is worked")

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_notes(self, *expected: str) -> None:
        wait_until(lambda: self.notes() == list(expected), f"the notes are {expected}")

    def wake_until_worked(self) -> None:
        """Wakes repeatedly, as sweeps do: the Redis in Python may hand a wake-up to a worker that ended while it
        waited."""

        def worked() -> bool:
            self.wake()
            return self.notes()[-1:] == ["ended"]

        wait_until(worked, "a wake-up is worked")

    def fail_once(self) -> None:
        """Wakes the worker for a job that raises."""
        (self.folder / "fail").touch()
        self.wake()
        self.wait_for_notes("began")
        (self.folder / "fail").unlink()

    def keys_of_jobs(self) -> list[bytes]:
        """The keys of RQ in Redis, without those of the worker itself."""
        with connect_redis(self.redis.url) as client:
            return [key for key in client.scan_iter("rq:*") if not key.startswith((b"rq:worker", b"rq:queues"))]

    def end(self, *signals: signal.Signals) -> None:
        """Sends signals and waits until the process has ended well. The worker's own waits are much longer than this
        one."""
        for number in signals:
            self.process.send_signal(number)
        assert self.process.wait() == 0


@pytest.fixture
def bench() -> Iterator[WorkerBench]:
    with short_folder() as folder:
        redis = RedisProcess(folder)
        redis.start()
        worker_bench = WorkerBench(folder, redis)
        worker_bench.start_worker()
        worker_bench.wait_for_notes("began", "ended")
        (folder / "notes").unlink()
        yield worker_bench
        worker_bench.process.kill()
        redis.stop()


def test_a_job_runs_in_the_process_of_the_worker(bench: WorkerBench) -> None:
    bench.wake()
    bench.wait_for_notes("began", "ended")
    assert (bench.folder / "notes").read_text().split()[1] == str(bench.process.pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_at_once(bench: WorkerBench, number: signal.Signals) -> None:
    bench.end(number)


@pytest.mark.parametrize("again", [(), (signal.SIGTERM,), (signal.SIGINT,)])
def test_a_busy_worker_finishes_its_job(bench: WorkerBench, again: tuple[signal.Signals, ...]) -> None:
    """The job is finished even when the signal comes twice. It does so when it goes to a process group and to the
    launcher."""
    (bench.folder / "busy").touch()
    bench.wake()
    bench.wait_for_notes("began")
    bench.end(signal.SIGTERM, *again)
    assert bench.notes() == ["began", "ended"]


def test_a_wake_up_during_a_job_is_worked_after_it(bench: WorkerBench) -> None:
    """A wake-up that a worker has taken no longer counts, so the next one is queued."""
    (bench.folder / "busy").touch()
    bench.wake()
    bench.wait_for_notes("began")
    bench.wake()
    (bench.folder / "busy").unlink()
    bench.wait_for_notes("began", "ended", "began", "ended")


def test_a_job_that_raises_does_not_end_the_worker(bench: WorkerBench) -> None:
    bench.fail_once()
    bench.wake()
    bench.wait_for_notes("began", "began", "ended")


def test_a_wake_up_that_was_worked_leaves_nothing_in_redis(bench: WorkerBench) -> None:
    """Redis keeps nothing after a job that raised, either. The job's work remains in the tables, and the next sweep
    finds it."""
    bench.fail_once()
    bench.wake()
    bench.wait_for_notes("began", "began", "ended")
    assert bench.keys_of_jobs() == []


@pytest.mark.parametrize("serializer", [JSONSerializer, DefaultSerializer])
@pytest.mark.parametrize("function", ["sys.exit", "no_such_module.function"])
def test_only_jobs_of_the_service_are_called_whatever_the_queue_contains(
    bench: WorkerBench, function: str, serializer: type[JSONSerializer | DefaultSerializer]
) -> None:
    """Jobs of another program would end this worker if they were called, or cannot even be parsed."""
    with connect_redis(bench.redis.url) as client:
        workers = client.smembers("rq:workers")
        queue = Queue(SENDS, connection=client, serializer=serializer)
        queue.enqueue_call(function)
        wait_until(lambda: queue.count == 0, "the job is taken")
        bench.wake()
        bench.wait_for_notes("began", "ended")
        assert client.smembers("rq:workers") == workers, "the worker started over"
    assert bench.keys_of_jobs() == []


def test_an_idle_worker_survives_a_restart_of_redis(bench: WorkerBench) -> None:
    bench.redis.kill()
    bench.redis.start()
    bench.wait_until_woken()


def test_without_redis_a_worker_looks_for_work_again_and_again(bench: WorkerBench) -> None:
    bench.redis.kill()
    wait_until(lambda: bench.notes()[:4] == ["began", "ended"] * 2, "it has looked twice")
    bench.redis.start()
    bench.wait_until_woken()


@pytest.mark.parametrize("queues", [(WEBHOOKS, MAINTENANCE), (MAINTENANCE, WEBHOOKS)])
def test_maintenance_comes_before_webhooks_that_are_always_busy(bench: WorkerBench, queues: tuple[str, ...]) -> None:
    """While one job sends events, the scheduler wakes the worker for the next ones."""
    with connect_redis(bench.redis.url) as client:
        wake_ups, worker = WakeUps(client), Worker(queues, client, Stop(threading.Event()))
        wake_ups.wake(WEBHOOKS)
        wake_ups.wake(MAINTENANCE)
        taken = worker.dequeue_job_and_maintain_ttl(1)
    assert taken is not None
    assert taken[1].name == MAINTENANCE


def test_a_worker_leaves_its_loop_when_redis_vanishes_while_a_wake_up_is_removed(bench: WorkerBench) -> None:
    """RQ would log a traceback for each failed command of its own."""
    with connect_redis(bench.redis.url) as client:
        worker = Worker([SENDS], client, Stop(threading.Event()))
        job = Job.create("jobs.nothing", connection=client, serializer=JSONSerializer)
        bench.redis.kill()
        with pytest.raises(StopRequested):
            worker.execute_job(job, worker.queues[0])
        with pytest.raises(RedisError):
            worker.teardown()
    bench.redis.start()


def test_a_flushed_redis_does_not_disturb_the_worker(bench: WorkerBench) -> None:
    with connect_redis(bench.redis.url) as client:
        client.flushall()
    bench.wake()
    bench.wait_for_notes("began", "ended")


def test_a_busy_worker_survives_a_restart_of_redis(bench: WorkerBench) -> None:
    """The job finishes without Redis, and the worker reconnects."""
    (bench.folder / "busy").touch()
    bench.wake()
    bench.wait_for_notes("began")
    bench.redis.kill()
    (bench.folder / "busy").unlink()
    wait_until(lambda: bench.notes()[:2] == ["began", "ended"], "the job has ended")
    bench.redis.start()
    bench.wait_until_woken()


def test_a_worker_without_redis_ends_at_once(bench: WorkerBench) -> None:
    """The worker ends even during the pause before its next look for work."""
    bench.end(signal.SIGTERM)
    bench.start_worker(LONG_PAUSES)
    bench.wake_until_worked()
    bench.redis.kill()
    wait_until(lambda: "Redis does not answer" in (bench.folder / "log").read_text(), "it has looked for work")
    bench.end(signal.SIGTERM)
    bench.redis.start()


def test_a_job_in_one_of_rqs_registries_is_never_called_back(bench: WorkerBench) -> None:
    """RQ calls whatever an abandoned job names as its callback when it cleans its registries."""
    bench.end(signal.SIGTERM)
    with connect_redis(bench.redis.url) as client:
        queue = Queue(SENDS, connection=client, serializer=JSONSerializer)
        callback = Callback("tests.jobs.worker_process.leave_a_mark")
        job = Job.create("sys.exit", connection=client, on_failure=callback, serializer=JSONSerializer)
        job.set_status(JobStatus.STARTED)
        job.save()
        client.zadd(StartedJobRegistry(queue=queue).key, {f"{job.id}:an-execution": 1})
        client.rpush(queue.intermediate_queue_key, "taken-by-a-dead-worker")
        bench.start_worker()
        wait_until(lambda: not client.exists(queue.intermediate_queue_key), "the worker has tidied up")
        bench.wake_until_worked()
        assert not client.exists(MARK)


def test_an_answer_of_redis_is_waited_for_for_ten_seconds(bench: WorkerBench) -> None:
    """RQ would wait for minutes, and the mail with it (docs/fault-tests.md#the-faults)."""
    with connect_redis(bench.redis.url) as client:
        worker = Worker([SENDS], client, Stop(threading.Event()))
        assert worker.dequeue_timeout == 5
        assert worker.connection.connection_pool.connection_kwargs["socket_timeout"] == 10
