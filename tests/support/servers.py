"""Real servers for the tests: PostgreSQL and Redis from wheels, or those that DATABASE_URL and REDIS_URL name;
EMBEDDED_REDIS chooses among the Redis servers as for `make run`."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection, NullPool, create_engine, make_url, text

from app.db.migrate import upgrade
from app.db.models import Base
from app.launcher import embedded_redis
from app.settings import own_redis_url, parse_database_url
from tests.support.postgres_start import start_postgres
from tests.support.prepared import TEMPLATE

PATIENCE = 180.0
"""Seconds after which a test gives up waiting; far longer than any wait that succeeds."""


@contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="tms-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server's maintenance database."""
    named = os.environ.get("DATABASE_URL", "")
    if named.startswith("postgres"):
        yield parse_database_url(named)
        _lendings.pop(parse_database_url(named), Lending()).made.close()
        return
    with short_folder() as folder:
        server = start_postgres(folder / "pg")
        try:
            off = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
            server.psql("\n".join((*(f"ALTER SYSTEM SET {name} = off;" for name in off), "SELECT pg_reload_conf();")))
            yield parse_database_url(server.get_uri())
        finally:
            server.cleanup()


@contextmanager
def scratch_database(server_url: str, template: str = "template0") -> Iterator[str]:
    """The URL of a new database on the server, dropped afterwards; empty unless it is a copy of another one."""
    name = f"tms_test_{uuid.uuid4().hex[:12]}"
    # A connection for each of the two steps: tests in between may end all that there are.
    with _connected(server_url) as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'{_strategy(connection)}"))
    yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    with _connected(server_url) as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


def _strategy(connection: Connection) -> str:
    """Copying files takes half as long as copying pages through the log, unless each file waits for the disk."""
    version = connection.dialect.server_version_info or ()
    waits_for_the_disk = connection.exec_driver_sql("SHOW fsync").scalar() == "on"
    return "" if version < (15,) or waits_for_the_disk else " STRATEGY file_copy"


@contextmanager
def migrated_database(server_url: str) -> Iterator[str]:
    """The URL of a new database with the newest schema, dropped afterwards."""
    with _connected(server_url) as connection:
        databases = connection.execute(text("SELECT true FROM pg_database WHERE datname = :name"), {"name": TEMPLATE})
        is_prepared = bool(databases.scalar())
    with scratch_database(server_url, TEMPLATE if is_prepared else "template0") as url:
        if not is_prepared:
            upgrade(url)
        yield url


TABLES = Base.metadata.sorted_tables
FIRST_ROWS = ("event_rotation", "schema_state")
"""Tables that a migrated database has rows in."""
EMPTY = "; ".join(
    (
        "BEGIN",
        *(f"DELETE FROM {table.name}" for table in reversed(TABLES) if table.name not in FIRST_ROWS),
        "UPDATE event_rotation SET slot = 0, since_id = 0, since_time = '2000-01-01'",
        "SELECT setval(quote_ident(sequencename)::regclass, start_value, false) FROM pg_sequences",
        "COMMIT",
    )
)
SCHEMA = (
    "SELECT string_agg(name, ' ' ORDER BY name) FROM "
    "(SELECT relname::text AS name FROM pg_class UNION ALL SELECT tgname::text FROM pg_trigger) AS names"
)


@dataclass(frozen=True)
class Lending:
    """The databases of a server that are lent to one test after another, with the names in their schema."""

    free: list[tuple[str, str]] = field(default_factory=list)
    made: ExitStack = field(default_factory=ExitStack)


_lendings: dict[str, Lending] = defaultdict(Lending)
"""By the URL of the server."""


@contextmanager
def emptied_database(server_url: str) -> Iterator[str]:
    """As `migrated_database`, for many tests one after another: a database that others have used before, without their
    rows. Making a new one takes a hundred times as long. One whose schema a test has changed is not lent again."""
    lending = _lendings[server_url]
    url, schema = lending.free.pop() if lending.free else _lasting_database(server_url, lending)
    yield url
    with _connected(url) as connection:
        if connection.exec_driver_sql(SCHEMA).scalar_one() == schema:
            connection.exec_driver_sql(EMPTY)
            lending.free.append((url, schema))


def _lasting_database(server_url: str, lending: Lending) -> tuple[str, str]:
    """A migrated database that stays as long as the server is used, and the names in its schema."""
    url = lending.made.enter_context(migrated_database(server_url))
    with _connected(url) as connection:
        return url, connection.exec_driver_sql(SCHEMA).scalar_one()


@contextmanager
def _connected(server_url: str) -> Iterator[Connection]:
    """A connection in no transaction."""
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def free_port() -> int:
    """A port without a listener, which no other program gets by chance: the system chooses from higher ones, and no
    other test run of this user is given the port while this process lives."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given_ports:
                fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                _given_ports.add(port)
                return port


_given_ports: set[int] = set()
"""By this process, which its own locks do not exclude."""


@cache
def _port_locks() -> int:
    """The descriptor of a file that all test runs share. A process locks the byte at the number of each port that it is
    given: such a lock needs no descriptor of its own, is not inherited, and ends with the process."""
    path = Path(tempfile.gettempdir(), f"tms-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of an empty Redis."""
    named = os.environ.get("REDIS_URL")
    if named:
        yield named
        return
    with short_folder() as folder:
        url = own_redis_url(folder)
        command = embedded_redis.command(folder, os.environ.get("EMBEDDED_REDIS", ""))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: _answers(url), "Redis answers")
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _answers(url: str) -> bool:
    try:
        with Redis.from_url(url) as client:
            return bool(client.ping())
    except RedisError:
        return False


def wait_until(condition: object, what: str, seconds: float = PATIENCE) -> None:
    """Calls the condition until it is true; fails after that many seconds."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(0.02)
