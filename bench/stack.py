"""The installation that a case measures: a database, Redis, and the processes of the service as an operator runs them.

PostgreSQL and Redis come from their wheels, with their default settings: a commit is on the disk.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import psycopg
from redis import Redis

from app.db import migrate
from app.launcher import embedded_redis
from app.seed.load import load_seed
from app.seed.report import AccountReport
from app.services import Services, make_services
from app.settings import from_environment, parse_database_url
from bench.processes import children, listens, running, wait_for
from tests.support.postgres_start import start_postgres

TUNED_PEER = "contacts_api_tuned"
GUIDES_PEER = "contacts_api"
"""The two forms of the peer of the API cases, by their modules in `bench.peers`."""
WEB_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Stack:
    """The parts of an installation. `environment` is that of each of its processes."""

    folder: Path
    environment: Mapping[str, str]
    services: Services

    @property
    def database_url(self) -> str:
        """The URL for SQLAlchemy."""
        return self.services.settings.database_url

    @property
    def is_postgresql(self) -> bool:
        """Whether there are floors and peers, which need PostgreSQL."""
        return self.services.database.is_postgresql

    def connect(self) -> psycopg.Connection:
        """A connection to PostgreSQL, for loading and for checks."""
        return psycopg.connect(plain_url(self.database_url))


def plain_url(database_url: str) -> str:
    """The URL of a PostgreSQL database for libpq."""
    return database_url.replace("postgresql+psycopg://", "postgresql://")


@contextlib.contextmanager
def stack(*, postgresql: bool, **settings: str) -> Iterator[Stack]:
    """An empty installation in a temporary folder, with further variables of its environment."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as name, contextlib.ExitStack() as kept:
        folder = Path(name)
        environment = {
            "DATA_DIR": name,
            "PORT": str(free_port()),
            "RATE_LIMIT": "1000000/second",  # counted for every request, never reached
            "LOG_FORMAT": "json",
            "REQUIRE_HTTPS": "0",
            "WEBHOOK_ALLOW_PRIVATE": "1",
            **settings,
        }
        if postgresql:
            environment["DATABASE_URL"] = kept.enter_context(_postgresql(folder))
        services = make_services(from_environment({**os.environ, **environment}))
        kept.callback(services.database.close)
        migrate.upgrade(services.settings.database_url)
        kept.enter_context(_redis(services, folder))
        yield Stack(folder, environment, services)


@contextlib.contextmanager
def _postgresql(folder: Path) -> Iterator[str]:
    server = start_postgres(folder / "pg")
    try:
        server.psql("CREATE DATABASE tms TEMPLATE template0 ENCODING 'UTF8';")
        yield parse_database_url(server.get_uri(database="tms"))
    finally:
        server.cleanup()


@contextlib.contextmanager
def _redis(services: Services, folder: Path) -> Iterator[None]:
    program, *arguments = embedded_redis.command(folder)
    with running(
        "redis", ["-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])", program, *arguments], {}, folder
    ):
        wait_for(lambda: _answers(services.redis), "Redis answers")
        yield


def _answers(redis: Redis) -> bool:
    with contextlib.suppress(Exception):
        return bool(redis.ping())
    return False


def seed(stack: Stack, account: Mapping[str, object]) -> AccountReport:
    """Adds an account as a seed file describes it; returns the report with its ids and tokens."""
    file = stack.folder / "seed.json"
    file.write_bytes(orjson.dumps({"accounts": [account]}))
    return load_seed(stack.services, file).accounts[0]


@dataclass(frozen=True, slots=True)
class Server:
    """A web server under measurement. `workers` are the processes that answer."""

    name: str
    port: int
    workers: list[int]


@contextlib.contextmanager
def api(stack: Stack, processes: int = WEB_PROCESSES) -> Iterator[Server]:
    """The API of the service, under gunicorn. There may be several with different numbers of processes."""
    with _serving("ours", ["-m", "gunicorn", "wsgi:application"], stack, free_port(), processes) as server:
        yield server


@contextlib.contextmanager
def floor_api(stack: Stack, module: str = "api") -> Iterator[Server]:
    """A floor of the API cases, under gunicorn with the configuration of the service."""
    port = free_port()
    with _serving("floor", ["-m", "gunicorn", f"bench.floors.{module}:application"], stack, port) as server:
        yield server


@contextlib.contextmanager
def peer_api(stack: Stack, module: str = TUNED_PEER) -> Iterator[Server]:
    """A peer of the API cases, under uvicorn with as many processes."""
    port = free_port()
    arguments = ["-m", "uvicorn", f"bench.peers.{module}:application", "--port", str(port)]
    arguments += ["--workers", str(WEB_PROCESSES), "--no-access-log", "--log-level", "warning"]
    with _serving("peer", arguments, stack, port) as server:
        yield server


@contextlib.contextmanager
def _serving(
    name: str, arguments: list[str], stack: Stack, port: int, processes: int = WEB_PROCESSES
) -> Iterator[Server]:
    environment = {**stack.environment, "PORT": str(port), "WEB_WORKERS": str(processes)}
    with running(name, arguments, environment, stack.folder) as pid:
        wait_for(lambda: listens(port), f"the server {name} listens")
        wait_for(lambda: len(_workers(pid)) >= processes, f"the server {name} has its processes")
        yield Server(name, port, _workers(pid))


def _workers(pid: int) -> list[int]:
    """The child processes that answer: uvicorn has another one, which tracks its resources."""
    return [child for child in children(pid) if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextlib.contextmanager
def send_workers(stack: Stack, count: int, **settings: str) -> Iterator[list[int]]:
    """Sending processes without a scheduler: accepted sends wake them."""
    with contextlib.ExitStack() as kept:
        yield [
            kept.enter_context(
                running(
                    f"sends-{number}", ["-m", "jobs.worker", "sends"], {**stack.environment, **settings}, stack.folder
                )
            )
            for number in range(count)
        ]


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
