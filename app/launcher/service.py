"""The service as the launcher runs it: prepares, starts all processes, prints the screen and supervises the
processes.
"""

from __future__ import annotations

import errno
import fcntl
import http.client
import importlib
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.clock import this_second
from app.db.bounded_connection import COMMAND_SECONDS, limit_waits
from app.db.database import Database
from app.db.models import Account, RunningProcess
from app.db.outage import reason
from app.db.planner_statistics import has_planner_statistics, write_planner_statistics
from app.db.schema import schema_of
from app.distribution import python_command
from app.first_setup.reach import destination
from app.infrastructure import logs
from app.infrastructure.running_service import LOCK_FILE, owner_in, write_owner
from app.infrastructure.start_checks import StartRefused, check_start
from app.infrastructure.start_signal import StartSignal
from app.infrastructure.startup_report import log_startup
from app.launcher import embedded_redis
from app.launcher import screen as demos
from app.launcher.embedded_redis import EmbeddedRedisError
from app.launcher.screen import Demo, screen
from app.launcher.supervisor import Child, Supervisor
from app.seed.errors import SeedError
from app.services import Services, make_services
from app.settings import Settings, SettingsError, from_environment, own_redis_url
from app.transports.base import TransportUrlError
from app.transports.check import check_urls
from app.transports.email import relay_servers

# Checks and preparations before any process starts. Every error is one line: `StartError`.


class StartError(Exception):
    """The service cannot start; the text is one line for the operator. `status` is the exit status."""

    def __init__(self, line: str, status: int = 1) -> None:
        super().__init__(line)
        self.status = status


def check_settings(settings: Settings) -> None:
    """Finds invalid values that would otherwise fail only when they are used."""
    try:
        check_urls(settings.email_transport_url, settings.sms_transport_url)
    except TransportUrlError as error:
        raise StartError(str(error), status=2) from None
    if settings.seed and not Path(settings.seed).is_file():
        raise StartError(f"SEED={settings.seed}: no such file", status=2)


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of a data folder: one launcher uses it at a time. It ends when it is closed or the process ends."""

    file: int
    predecessor_died: bool
    """The last launcher was killed, so some of its processes may still be running."""

    def close(self) -> None:
        """Empties the file, which marks an orderly end."""
        os.ftruncate(self.file, 0)
        os.close(self.file)


def lock_data_dir(data_dir: Path, public_url: str) -> Lock:
    """Locks the folder for the service with that address. Raises `StartError` if another launcher uses it."""
    file = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = owner_in(file) or "unknown"
        os.close(file)
        raise StartError(f"the service already runs in DATA_DIR={data_dir} (process {owner})") from None
    lock = Lock(file, predecessor_died=bool(owner_in(file)))
    write_owner(file, public_url)
    return lock


def await_port(host: str, port: int, seconds: float, setting: str = "PORT") -> None:
    """Waits until the port is free. Raises `StartError` if it is still in use after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            check_port(host, port, setting)
            return
        except StartError:
            time.sleep(0.1)
    check_port(host, port, setting)


def check_port(host: str, port: int, setting: str = "PORT") -> None:
    """Raises `StartError` if the port cannot be bound."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} on {host} is taken: stop what listens there, or set {setting}") from None
        raise StartError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def migrate_database(settings: Settings) -> None:
    """Creates the database or upgrades it to the newest revision. One with a newer revision is used as it is."""
    database = Database(settings.database_url)
    try:
        if not _fits(database):
            _upgrade(settings.database_url)
        check_start(database, settings)
        _restore_planner_statistics(database)
    except StartRefused as error:
        raise StartError(str(error)) from None
    except SQLAlchemyError as error:
        raise StartError(f"the database cannot be used: {reason(error)}") from None
    finally:
        database.close()


def _fits(database: Database) -> bool:
    with database.read() as session:
        state = schema_of(session.connection()).state
    return state not in ("missing", "older")


def _restore_planner_statistics(database: Database) -> None:
    """Writes what SQLite's planner assumes where somebody, or an earlier release, has replaced it."""
    with database.read() as session:
        is_restored = has_planner_statistics(session.connection())
    if not is_restored:
        with database.write() as transaction:
            write_planner_statistics(transaction.connection())


def _upgrade(url: str) -> None:
    """Migrates. Alembic is imported now, since most starts do without it."""
    migrate = importlib.import_module("app.db.migrate")
    try:
        migrate.upgrade(url)
    except migrate.MigrationError as error:
        raise StartError(str(error)) from None


def is_first_start(services: Services) -> bool:
    """Whether no account exists. A seed is one transaction, so after an interrupted start it is loaded by the next."""
    with services.database.read() as session:
        return session.scalar(select(Account.id).limit(1)) is None


def seed(services: Services, path: Path, substitutions: dict[str, str]) -> None:
    """Loads a seed file. Raises `StartError`. The loader is imported now, since only a first start needs it."""
    loader = importlib.import_module("app.seed.load")
    try:
        with limit_waits(COMMAND_SECONDS):
            loader.load_seed(services, path, substitutions)
    except SeedError as error:
        raise StartError(f"{path}: {error}", status=2) from None


logger = logging.getLogger("app.launcher")

LOG_FILE = "service.log"
"""The file in `DATA_DIR` that has the log where the service runs in a terminal."""
POLL_SECONDS = 0.05
ORPHAN_SECONDS = 8.0
"""Seconds after which the processes of a killed launcher have ended: the API takes up to 5."""
PYTHON_REDIS_WARNING = (
    "the embedded Redis is the one in Python, which is meant for development; in production install redis-server or "
    "valkey-server, or set REDIS_URL"
)
WILDCARD_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Wildcard address -> one at which the service can be reached."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the steps of a start share."""

    settings: Settings
    supervisor: Supervisor
    environment: dict[str, str]
    api: Child
    """Begun, and waiting for the signal."""
    signal: StartSignal

    def python(self, name: str, *module: str) -> Child:
        """A process that runs a module with this Python."""
        return Child(name, python_command(*module), self.environment)


def run(supervisor: Supervisor, api: Child, signal: StartSignal) -> int:
    """Runs the service, whose API is begun and waits for the signal. Its processes have ended before the lock of the
    data folder does; the caller stops the API if the lock was not to be had.

    Returns the exit status: 0 when asked to stop, 2 for an invalid setting, else 1.
    """
    try:
        settings = from_environment()
        check_settings(settings)
        lock = lock_data_dir(settings.data_dir, settings.public_url)
    except (SettingsError, StartError) as error:
        return _refuse(error)
    with closing(lock):
        environment = dict(os.environ)
        if not settings.log_file and sys.stderr.isatty():
            # The terminal shows the screen, and the lines of the log nowhere between.
            settings = replace(settings, log_file=str(settings.data_dir / LOG_FILE))
            environment["LOG_FILE"] = settings.log_file
        try:
            logs.configure(settings)
        except OSError as error:
            return _refuse(StartError(f"LOG_FILE={settings.log_file}: {error.strerror}", status=2))
        start = Start(settings, supervisor, environment, api, signal)
        status = _serve(start, ORPHAN_SECONDS if lock.predecessor_died else 0)
        if status and settings.log_file:
            print(f"the last lines of {settings.log_file} show the reason", file=sys.stderr)
        return status


def _refuse(error: Exception) -> int:
    print(f"cannot start: {error}", file=sys.stderr)
    return error.status if isinstance(error, StartError) else 2 if isinstance(error, SettingsError) else 1


def _serve(start: Start, patience: float) -> int:
    """Starts all processes and stops them at the end. `patience` is in seconds, for a port that is still in use."""
    try:
        await_port(start.settings.host, start.settings.port, patience)
        if start.settings.inbound_listen:
            await_port(*start.settings.inbound_listen, patience, "INBOUND_LISTEN")
        if start.settings.submission_listen:
            await_port(*start.settings.submission_listen, patience, "SUBMISSION_LISTEN")
        redis = _start_redis(start)
        demo = _prepare_database(start)
        log_startup(start.settings)
        if redis == embedded_redis.PYTHON:
            logger.warning(PYTHON_REDIS_WARNING)
        if demo and not start.environment.get("WEBHOOK_ALLOW_PRIVATE"):
            # The demo's receiver is on this machine and speaks plain http.
            start.environment["WEBHOOK_ALLOW_PRIVATE"] = "on"
        since = this_second()
        senders = _start_senders(start)
        _start_api(start)
        if not start.supervisor.stop_requested:
            _print_screen(start, demo)
            sends = _await_sender(start, senders, since)
        if not start.supervisor.stop_requested:
            _start_other_workers(start)
            _start_receiver(start, demo)
            _print_readiness(start, sends)
        return start.supervisor.watch()
    except (SettingsError, StartError, EmbeddedRedisError) as error:
        return _refuse(error)
    finally:
        start.supervisor.stop()


def _start_redis(start: Start) -> str | None:
    """Starts the embedded Redis and returns its kind; None if REDIS_URL names another."""
    data_dir = start.settings.data_dir
    if start.settings.redis_url != own_redis_url(data_dir):
        return None
    kind, _ = embedded_redis.choose(start.settings.embedded_redis)
    redis = Child("redis", embedded_redis.command(data_dir, kind), start.environment)
    start.supervisor.start(redis, first=True)
    embedded_redis.wait_until_ready(data_dir, lambda: redis.alive)
    return kind


def _prepare_database(start: Start) -> Demo | None:
    """Migrates the database, and seeds it on the first start. Returns the demo if the database contains it."""
    migrate_database(start.settings)
    demo = demos.read(start.settings)
    with _temporary_services(start.settings) as services:
        if is_first_start(services):
            _seed(services, demo)
        if start.settings.exposed and (count := demos.replace_published_keys(services, demo)):
            logger.warning(
                "others can reach this service, so the %d published keys of the demo were replaced by random ones: %s",
                count,
                demos.kept_keys(start.settings),
            )
        return demos.loaded(services, demo)


def _seed(services: Services, demo: Demo) -> None:
    if services.settings.seed:
        seed(services, Path(services.settings.seed), {})
        return
    with_receiver = replace(services, settings=replace(services.settings, webhook_allow_private=True))
    seed(with_receiver, demos.SEED, demo.substitutions)


@contextmanager
def _temporary_services(settings: Settings) -> Iterator[Services]:
    """Services that are closed at the end: no connection may be open when a process is forked from this one."""
    services = make_services(settings)
    try:
        yield services
    finally:
        services.close()
        services.redis.close()


def _start_api(start: Start) -> None:
    """Lets the API go on and waits until it answers."""
    start.signal.give(start.environment)
    start.api.environment, start.api.inherited = start.environment, ()  # of its next starts
    while not (start.supervisor.stop_requested or _answers(start.settings)):
        if not start.api.alive:
            raise StartError("the API server has ended; its last log lines show the reason")
        start.supervisor.wait(POLL_SECONDS)


def _answers(settings: Settings) -> bool:
    connection = http.client.HTTPConnection(
        WILDCARD_ADDRESSES.get(settings.host, settings.host), settings.port, timeout=2
    )
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _start_senders(start: Start) -> Sequence[Child]:
    """Sends have their own processes, so that neither a slow webhook receiver nor a large automation delays a
    message."""
    numbers = range(1, start.settings.send_workers + 1)
    senders = [start.python(f"sends-{number}", "jobs.worker", "sends") for number in numbers]
    for sender in senders:
        start.supervisor.start(sender)
    return senders


def _start_other_workers(start: Start) -> None:
    """Starts what no mail waits for. It starts last, because each process imports for more than a second."""
    start.supervisor.start(start.python("webhooks", "jobs.worker", "webhooks", "maintenance"))
    start.supervisor.start(start.python("automations", "jobs.worker", "automations"))
    start.supervisor.start(start.python("schedule", "jobs.schedule"))
    if start.settings.inbound_listen:
        start.supervisor.start(start.python("inbound", "jobs.inbound"))
    if start.settings.submission_listen:
        start.supervisor.start(start.python("submission", "jobs.submission"))


def _start_receiver(start: Start, demo: Demo | None) -> None:
    """Starts the receiver that prints the demo's events. Nothing depends on it, so it may be missing if its port is in
    use."""
    if not demo:
        return
    try:
        check_port("127.0.0.1", demo.receiver_port)
    except StartError as error:
        logger.warning("no receiver for the demo's events, which wait meanwhile: %s", error)
        return
    receiver = start.python("receiver", "app.demo.receiver")
    receiver.environment = {
        **start.environment,
        "RECEIVER_PORT": str(demo.receiver_port),
        "RECEIVER_SECRET": demo.receiver_secret,
    }
    start.supervisor.start(receiver)


RELAY_SECONDS = 5.0
"""Seconds for which a relay may take to accept a connection."""
READY_SECONDS = 30.0
"""Seconds within which a sender gives its first sign of life."""


def _await_sender(start: Start, senders: Sequence[Child], since: datetime) -> bool:
    """Waits until a sender has started since then; False if all have ended, or none does within `READY_SECONDS`."""
    started = select(RunningProcess.name).where(RunningProcess.roles == "sends", RunningProcess.start_time >= since)
    deadline = time.monotonic() + READY_SECONDS
    with _temporary_services(start.settings) as services:
        while not start.supervisor.stop_requested and time.monotonic() < deadline:
            with services.database.read() as session:
                if session.scalar(started.limit(1)) is not None:
                    return True
            if not any(sender.alive for sender in senders):
                return False  # they are started again once all is supervised
            start.supervisor.wait(POLL_SECONDS)
        return False


def _print_readiness(start: Start, sends: bool) -> None:
    """Says that mail leaves now, or what keeps it: no sender that runs, or a relay that cannot be reached."""
    if not sends:
        obstacle = "no process that sends messages has started, so messages wait"
    elif unreachable := unreachable_relays(_relay_url(start.settings)):
        obstacle = f"{' and '.join(unreachable)}. Mail is accepted, and waits"
    else:
        obstacle = ""
    if not start.supervisor.stop_requested:
        print(f"  Not ready: {obstacle}.\n" if obstacle else "  Ready: mail leaves now.\n", flush=True)


def _relay_url(settings: Settings) -> str:
    with _temporary_services(settings) as services, services.database.read() as session:
        return destination(session, settings, "email") or ""


def unreachable_relays(url: str) -> list[str]:
    """What keeps mail from each of the relays in `EMAIL_TRANSPORT_URL`; empty if one of them can be reached, or if mail
    goes to none."""
    refusals = [_refusal_of(relay) for relay in relay_servers(url)]
    return [] if None in refusals else [refusal for refusal in refusals if refusal]


def _refusal_of(server: tuple[str, int]) -> str | None:
    """Why nothing listens at the relay, as far as a connection tells; None if something does."""
    host, port = server
    try:
        socket.create_connection(server, timeout=RELAY_SECONDS).close()
    except OSError as error:
        return f"the relay {host} port {port} cannot be reached ({error.strerror or error})"
    return None


def _print_screen(start: Start, demo: Demo | None) -> None:
    with _temporary_services(start.settings) as services:
        print(screen(services, demo), flush=True)
