"""A PostgreSQL database that a test may freeze, and whose connections it may cut."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
from sqlalchemy import make_url

from tests.support.postgres_process import PostgresProcess, postgres_process
from tests.support.servers import migrated_database, scratch_database, short_folder, wait_until


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

    @contextmanager
    def without_standby(self) -> Iterator[None]:
        """Inside the block each commit waits for a standby that does not exist. One does so already: a commit waits
        only once the server's checkpointer has read the setting, which a session shows before that."""
        ended = threading.Event()

        def commit_until_the_end() -> None:
            with self._connected() as connection:
                while not ended.is_set():
                    connection.execute("SELECT pg_logical_emit_message(true, 'test', 'a commit')")

        with ThreadPoolExecutor(1) as pool:
            self.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf();")
            committing = pool.submit(commit_until_the_end)
            try:
                wait_until(lambda: committing.done() or self.waiting_commits() >= 1, "a commit waits for a standby")
                yield
            finally:
                ended.set()
                self.run("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();")
        committing.result()

    def waiting_commits(self) -> int:
        """How many commits wait for a standby."""
        with self._connected() as connection:
            row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()
        return int(row[0]) if row else 0

    def run(self, command: str) -> str:
        """The output of `psql` for a statement."""
        return self.process.server.psql(command)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.process.server.get_uri(), autocommit=True) as connection:
            yield connection


@contextmanager
def own_postgres(*, migrated: bool = False) -> Iterator[OwnPostgres]:
    """Runs a server inside the block; the database is empty, or has the newest schema."""
    database = migrated_database if migrated else scratch_database
    with postgres_process() as process, database(process.url) as url:
        yield OwnPostgres(process, url)


class Replica:
    """A hot standby of a server. `url` is that of the database in it."""

    def __init__(self, folder: Path, primary: OwnPostgres) -> None:
        self._data = folder / "replica"
        self._owner = primary.process.folder.owner()
        self._programs = Path(psutil.Process(primary.process.server.get_pid()).exe()).parent
        shutil.chown(folder, self._owner)
        self._run("pg_basebackup", "-d", primary.process.server.get_uri(), "-R", "-X", "stream", "-c", "fast")
        options = f"-k {folder} -c listen_addresses="
        self._run("pg_ctl", "-w", "-o", options, "-l", str(folder / "replica.log"), "start")
        self.url = str(make_url(primary.url).update_query_dict({"host": str(folder)}))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside the block nothing that the primary writes can be seen in it."""
        self.execute("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.execute("SELECT pg_get_wal_replay_pause_state()") == "paused", "the replay is paused")
        try:
            yield
        finally:
            self.execute("SELECT pg_wal_replay_resume()")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")

    def execute(self, statement: str) -> object:
        """The first value that a statement returns."""
        with psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
        return row[0] if row else None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *arguments]
        subprocess.run(command, user=self._owner, stdout=subprocess.DEVNULL, check=True)


@contextmanager
def replica_of(primary: OwnPostgres) -> Iterator[Replica]:
    """Runs a replica of the server inside the block."""
    with short_folder() as folder:
        replica = Replica(folder, primary)
        try:
            yield replica
        finally:
            with suppress(subprocess.CalledProcessError):
                replica.stop()
