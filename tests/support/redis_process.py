"""A Redis that a test may stop, kill and restart; it runs as under `make run`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.infrastructure.redis_client import connect_redis
from app.launcher import embedded_redis
from app.settings import own_redis_socket
from tests.support.servers import PATIENCE, short_folder


class RedisProcess:
    """The embedded Redis of a data folder; `kind` is a value of EMBEDDED_REDIS."""

    def __init__(self, data_dir: Path, kind: str | None = None) -> None:
        self.data_dir = data_dir
        self.kind = os.environ.get("EMBEDDED_REDIS", "") if kind is None else kind
        self.url = f"unix://{own_redis_socket(data_dir)}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it; returns when it answers."""
        process = subprocess.Popen(embedded_redis.command(self.data_dir, self.kind), stdin=subprocess.DEVNULL)
        self._process = process
        embedded_redis.wait_until_ready(self.data_dir, lambda: process.poll() is None)

    @property
    def pid(self) -> int | None:
        """The process id of the server that was started last."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Sends SIGTERM and waits for the end."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)

    def counted(self) -> int:
        """The number of requests in the counters of the rate limit."""
        with connect_redis(self.url) as client:
            return sum(int(client.get(key) or 0) for key in client.scan_iter("tms:rate:*"))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted inside the block, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until all of its threads have stopped
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL: the socket is left behind."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)


@contextmanager
def running_redis() -> Iterator[RedisProcess]:
    """Runs a separate Redis inside the block."""
    with short_folder() as folder:
        process = RedisProcess(folder)
        process.start()
        yield process
        process.kill()
