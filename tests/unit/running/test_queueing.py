"""Wake-ups: coalesced without a race, without pickles, and without errors while Redis is away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.connection import AbstractConnection
from rq import Queue
from rq.serializers import JSONSerializer

from app.infrastructure.redis_client import JOBS, MAINTENANCE, SENDS, WEBHOOKS, WakeUps, connect_redis
from tests.support.redis_process import RedisProcess, running_redis
from tests.support.servers import PATIENCE


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with running_redis() as process:
        yield process


@pytest.fixture
def redis(server: RedisProcess) -> Iterator[Redis]:
    with connect_redis(server.url) as client:
        client.flushall()
        yield client


def test_many_calls_queue_one_wake_up(redis: Redis) -> None:
    wake_ups = WakeUps(redis)
    for _ in range(100):
        wake_ups.wake(SENDS)
    assert redis.llen("rq:queue:sends") == 1


def test_a_call_costs_one_command_while_a_wake_up_is_queued(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    wake_ups = WakeUps(redis)
    wake_ups.wake(SENDS)
    sent: list[tuple[object, ...]] = []
    send = AbstractConnection.send_command

    def noted(connection: AbstractConnection, *parts: Any, **options: Any) -> None:
        sent.append(parts)
        send(connection, *parts, **options)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(AbstractConnection, "send_command", noted)
    wake_ups.wake(SENDS)
    assert sent == [("LLEN", "rq:queue:sends")]


def test_a_wake_up_that_was_taken_no_longer_counts(redis: Redis) -> None:
    """The worker that took the wake-up may have looked already, so work that is committed now needs a new one."""
    wake_ups = WakeUps(redis)
    wake_ups.wake(SENDS)
    redis.lpop("rq:queue:sends")
    wake_ups.wake(SENDS)
    assert redis.llen("rq:queue:sends") == 1


def test_queues_are_independent(redis: Redis) -> None:
    wake_ups = WakeUps(redis)
    for name in (SENDS, WEBHOOKS, MAINTENANCE):
        wake_ups.wake(name)
    assert [redis.llen(f"rq:queue:{name}") for name in (SENDS, WEBHOOKS, MAINTENANCE)] == [1, 1, 1]


def test_a_job_names_a_function_and_has_no_arguments(redis: Redis) -> None:
    WakeUps(redis).wake(SENDS)
    (job,) = Queue(SENDS, connection=redis, serializer=JSONSerializer).get_jobs()
    assert (job.func_name, job.args, job.kwargs) == (JOBS[SENDS], [], {})
    assert job.timeout == -1


def test_without_redis_it_warns_once_and_returns_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.infrastructure.redis_client.SECONDS", 10 * PATIENCE)
    monkeypatch.setattr("time.sleep", pytest.fail)
    wake_ups = WakeUps(connect_redis(f"unix://{tmp_path}/nobody.sock"))
    with caplog.at_level(logging.WARNING, logger="app.infrastructure.redis_client"):
        for _ in range(50):
            wake_ups.wake(SENDS)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no wake-up for sends, a sweep will find the work"
    ]


def test_it_queues_again_once_redis_is_back(
    server: RedisProcess, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    wake_ups = WakeUps(connect_redis(server.url))
    server.stop()
    wake_ups.wake(SENDS)
    server.start()
    wake_ups._breaker.close()
    wake_ups.wake(SENDS)
    assert redis.llen("rq:queue:sends") == 1
