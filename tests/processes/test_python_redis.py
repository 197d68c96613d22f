"""The Redis in Python: the commands that the service needs, on a private socket, for the lifetime of its launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import ResponseError, WatchError

from app.launcher import embedded_redis
from app.settings import own_redis_socket
from tests.support.redis_process import RedisProcess
from tests.support.servers import PATIENCE, short_folder, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with short_folder() as folder:
        process = RedisProcess(folder, "python")
        process.start()
        yield process
        process.stop()


@pytest.fixture
def redis(server: RedisProcess) -> Iterator[Redis]:
    with Redis.from_url(server.url) as client:
        client.flushall()
        yield client


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used_in_half_a_second(pid: int) -> float:
    before, began = cpu_seconds(pid), time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.5, "half a second has passed")
    return cpu_seconds(pid) - before


def test_commands_of_a_pipeline_are_answered_in_order(redis: Redis) -> None:
    with redis.pipeline(transaction=False) as pipe:
        for number in range(500):
            pipe.rpush("numbers", number)
        assert pipe.execute() == list(range(1, 501))


def test_a_connection_survives_an_error(redis: Redis) -> None:
    """The server loop of fakeredis closes it, and with it whatever a worker waits for."""
    number = redis.client_id()
    with pytest.raises(ResponseError):
        redis.execute_command("NO SUCH COMMAND")  # type: ignore[no-untyped-call]
    assert redis.client_id() == number


def test_a_value_larger_than_the_socket_buffer_arrives_whole(redis: Redis) -> None:
    redis.set("large", b"x" * 3_000_000)
    assert redis.get("large") == b"x" * 3_000_000


def test_a_client_that_waits_for_a_list_is_woken_by_another_client(server: RedisProcess, redis: Redis) -> None:
    popped: list[object] = []
    with Redis.from_url(server.url) as second_client:
        waiting = threading.Thread(target=lambda: popped.append(second_client.blpop(["queue"], PATIENCE)))
        waiting.start()
        redis.rpush("queue", "look")
        waiting.join(PATIENCE)
    assert popped == [(b"queue", b"look")]


def test_a_transaction_detects_a_change_by_another_client(server: RedisProcess, redis: Redis) -> None:
    with redis.pipeline() as pipe, Redis.from_url(server.url) as second_client:
        pipe.watch("counted")  # type: ignore[no-untyped-call]
        second_client.set("counted", 1)
        pipe.multi()
        pipe.set("counted", 2)
        with pytest.raises(WatchError):
            pipe.execute()
    assert redis.get("counted") == b"1"


def test_clients_are_distinguished(server: RedisProcess, redis: Redis) -> None:
    """A Unix socket gives them no addresses."""
    with Redis.from_url(server.url, single_connection_client=True) as second_client:
        assert second_client.client_id() != redis.client_id()
        second_client.select(1)
        redis.set("here", 1)
        assert second_client.get("here") is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_idle_clients_cost_no_processor_time(server: RedisProcess, redis: Redis) -> None:
    """Thirty waiting clients: a loop that polls each of them a hundred times a second would take a tenth of a
    processor."""
    pid = server.pid
    assert pid is not None
    with Redis.from_url(server.url, max_connections=40) as second_client:
        kept = [second_client.connection_pool.get_connection() for _ in range(30)]
        redis.ping()
        # The first half seconds may still be busy with the connections.
        wait_until(lambda: used_in_half_a_second(pid) <= 0.03, "it is idle for half a second")
        for connection in kept:
            second_client.connection_pool.release(connection)


def test_its_socket_is_accessible_to_this_user_only() -> None:
    """The umask of the launcher is 077."""
    before = os.umask(0o077)
    try:
        with short_folder() as folder:
            process = RedisProcess(folder, "python")
            process.start()
            assert own_redis_socket(folder).stat().st_mode & 0o077 == 0
            process.stop()
    finally:
        os.umask(before)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_it_starts_empty_where_another_one_ran(end: str) -> None:
    with short_folder() as folder:
        process = RedisProcess(folder, "python")
        process.start()
        with Redis.from_url(process.url) as client:
            client.set("kept", 1)
        getattr(process, end)()
        process.start()
        with Redis.from_url(process.url) as client:
            assert client.get("kept") is None
        process.stop()


def test_an_orphaned_server_is_ended_before_a_new_one_starts() -> None:
    with short_folder() as folder:
        process = RedisProcess(folder, "python")
        process.start()
        orphan = process._process
        assert orphan is not None
        process.start()
        assert orphan.wait(PATIENCE) == 0
        assert embedded_redis.answers(folder)
        process.stop()


LAUNCHER = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-m", "app.launcher.python_redis", sys.argv[1]]).pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_a_killed_launcher() -> None:
    """Redis ends even where the kernel does not signal the death of the parent."""
    with short_folder() as folder:
        command = [sys.executable, "-c", LAUNCHER, str(own_redis_socket(folder))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
            assert launcher.stdout is not None
            launcher.stdout.readline()
            wait_until(lambda: embedded_redis.answers(folder), "it answers")
            launcher.send_signal(signal.SIGKILL)
        wait_until(lambda: not embedded_redis.answers(folder), "it is gone")
