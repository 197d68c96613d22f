"""Redis behind Sentinels: after a failover, wake-ups go to the new master (docs/databases.md#redis)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from app.infrastructure.redis_client import SENDS, WakeUps, connect_redis
from app.launcher.embedded_redis import PYTHON, choose
from app.redis_urls import SentinelUrl, server_urls
from app.settings import parse_redis_url
from tests.support.cases import each
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until

SERVICE = "tms"
SENTINELS = 3


class Cluster:
    """A master, a replica and three Sentinels, which are real ones on the loopback address."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self.master_port, self.replica_port = free_port(), free_port()
        self.sentinel_ports = [free_port() for _ in range(SENTINELS)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """The value of the setting REDIS_URL."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return f"redis+sentinel://{hosts}/{SERVICE}/2"

    def start(self) -> None:
        """Starts all of them, and waits until each Sentinel knows the others and the replica."""
        self._run(self.master_port, "--save", "", "--dir", str(self._folder))
        replica = ("--replicaof", "127.0.0.1", str(self.master_port))
        self._run(self.replica_port, "--save", "", "--dir", str(self._folder), *replica)
        wait_until(lambda: self._is_answering(self.master_port), "the master answers")
        for port in self.sentinel_ports:
            configuration = self._folder / f"sentinel-{port}.conf"
            configuration.write_text(
                f"dir {self._folder}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {self.master_port} 2\n"
                f"sentinel down-after-milliseconds {SERVICE} 1000\n"
                f"sentinel failover-timeout {SERVICE} 10000\n"
            )
            self._run(port, str(configuration), "--sentinel")
        for port in self.sentinel_ports:
            wait_until(lambda port=port: self._knows_all(port), "a Sentinel knows the others")

    def _run(self, port: int, *options: str) -> None:
        first = [option for option in options if option.endswith(".conf")]
        others = [option for option in options if option not in first]
        command = [self._program, *first, "--port", str(port), "--bind", "127.0.0.1", *others]
        self._processes[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    @staticmethod
    def _is_answering(port: int) -> bool:
        try:
            with Redis("127.0.0.1", port) as client:
                return bool(client.ping())
        except RedisError:
            return False

    def _knows_all(self, port: int) -> bool:
        if not self._is_answering(port):
            return False
        with Redis("127.0.0.1", port) as client:
            state = client.sentinel_masters()[SERVICE]
        return bool(state["num-other-sentinels"] == SENTINELS - 1 and state["num-slaves"] == 1)

    def kill(self, port: int) -> None:
        """Ends one of them at once."""
        process = self._processes.pop(port)
        process.kill()
        process.wait(PATIENCE)

    def clear(self) -> None:
        """Ends the others."""
        for port in list(self._processes):
            self.kill(port)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Runs them inside the block."""
    kind, program = choose()
    if kind == PYTHON:
        pytest.skip("there is no real Redis")
    with short_folder() as folder, ExitStack() as stack:
        cluster = Cluster(program, folder)
        stack.callback(cluster.clear)
        cluster.start()
        yield cluster


def added(wake_ups: WakeUps, client: Redis) -> bool:
    """Whether a wake-up is in the queue."""
    wake_ups.wake(SENDS)
    try:
        return bool(client.llen(f"rq:queue:{SENDS}") == 1)
    except RedisError:
        return False


def test_wake_ups_go_to_the_new_master_after_a_failover() -> None:
    with running_cluster() as cluster, connect_redis(cluster.url) as client:
        wake_ups = WakeUps(client)
        assert added(wake_ups, client)
        with Redis("127.0.0.1", cluster.master_port, db=2) as master:
            assert master.llen(f"rq:queue:{SENDS}") == 1
        with Redis("127.0.0.1", cluster.replica_port, db=2) as replica:
            wait_until(lambda: replica.llen(f"rq:queue:{SENDS}") == 1, "the replica has it before the master dies")
        cluster.kill(cluster.sentinel_ports[0])
        cluster.kill(cluster.master_port)
        wait_until(lambda: added(wake_ups, client), "a wake-up arrives again")
        with Redis("127.0.0.1", cluster.replica_port, db=2) as replica:
            assert replica.role()[0] == b"master"
            assert replica.llen(f"rq:queue:{SENDS}") == 1


def test_without_any_sentinel_redis_is_away() -> None:
    with connect_redis(f"redis+sentinel://127.0.0.1:{free_port()}/{SERVICE}") as client:
        with pytest.raises(RedisConnectionError):
            client.ping()
        WakeUps(client).wake(SENDS)


URLS = [
    ("redis+sentinel://a,b:1,[::1]:2/tms", ((("a", 26379), ("b", 1), ("::1", 2)), "tms", 0, None, None)),
    ("redis+sentinel://:p%40ss@a/my%20tms/3", ((("a", 26379),), "my tms", 3, None, "p@ss")),
    ("redis+sentinel://ann:pa:ss@a/tms/", ((("a", 26379),), "tms", 0, "ann", "pa:ss")),
]
WRONG = [
    "redis+sentinel://",
    "redis+sentinel://a",
    "redis+sentinel://a/",
    "redis+sentinel:///tms",
    "redis+sentinel://a,,b/tms",
    "redis+sentinel://a:0/tms",
    "redis+sentinel://a:65536/tms",
    "redis+sentinel://a/tms/x",
    "redis+sentinel://ann@a/tms",
    "redis+sentinel://a b/tms",
]


@each(("url", "parts"), URLS)
def test_a_url_of_sentinels(url: str, parts: tuple[object, ...]) -> None:
    assert SentinelUrl.parse(url) == SentinelUrl(*parts)  # type: ignore[arg-type]
    assert parse_redis_url(url) == url


@each("url", WRONG)
def test_a_wrong_url_is_refused_with_the_form(url: str) -> None:
    with pytest.raises(ValueError, match=r"must have the form redis\+sentinel://"):
        parse_redis_url(url)


def test_each_sentinel_is_a_host_that_tenants_do_not_read() -> None:
    assert server_urls(URLS[0][0]) == ["redis://a:26379", "redis://b:1", "redis://[::1]:2"]
    assert server_urls("redis://a:1/2") == ["redis://a:1/2"]
