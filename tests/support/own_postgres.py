"""A PostgreSQL database that a test may freeze, and whose connections it may cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from tests.support.postgres_process import PostgresProcess
from tests.support.servers import scratch_database, short_folder


class OwnPostgres:
    """`url` is that of the database."""

    def __init__(self, process: PostgresProcess, url: str) -> None:
        self.process = process
        self.url = url
        self.name = make_url(url).database

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are accepted inside the block, and nothing is answered."""
        with self.process.frozen():
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        """Inside the block the database has no connections and accepts none, as in a restart."""
        self.run(f"ALTER DATABASE {self.name} WITH ALLOW_CONNECTIONS false;")
        try:
            self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}';")
            yield
        finally:
            self.run(f"ALTER DATABASE {self.name} WITH ALLOW_CONNECTIONS true;")

    def run(self, command: str) -> str:
        """The output of `psql` for a statement."""
        return self.process.server.psql(command)


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Runs a server inside the block; the database is empty."""
    with short_folder() as folder:
        process = PostgresProcess(folder / "pg")
        try:
            with scratch_database(process.url) as url:
                yield OwnPostgres(process, url)
        finally:
            process.stop()
