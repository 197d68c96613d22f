"""Checks and preparations before any process starts. Every error is one line: `StartError`."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.db import migrate
from app.db.bounded_connection import COMMAND, limit_waits
from app.db.database import Database
from app.db.models import Account
from app.db.outage import reason
from app.db.schema import SchemaError, check_schema, schema_of
from app.seed.load import load_seed
from app.seed.shape import SeedError
from app.services import Services
from app.settings import Settings
from app.transports.base import TransportUrlError
from app.transports.check import check_urls


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


def lock_data_dir(data_dir: Path) -> Lock:
    """Locks the folder. Raises `StartError` if another launcher uses it."""
    file = os.open(data_dir / "launcher.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = _owner(file) or "unknown"
        os.close(file)
        raise StartError(f"the service already runs in DATA_DIR={data_dir} (process {owner})") from None
    lock = Lock(file, predecessor_died=bool(_owner(file)))
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return lock


def _owner(file: int) -> str:
    """The process id in the file; empty after an orderly end."""
    return os.pread(file, 20, 0).decode("ascii", "replace").strip()


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
            migrate.upgrade(settings.database_url)
        check_schema(database)
    except SchemaError as error:
        raise StartError(str(error)) from None
    except SQLAlchemyError as error:
        raise StartError(f"the database cannot be used: {reason(error)}") from None
    finally:
        database.close()


def _fits(database: Database) -> bool:
    with database.read() as session:
        state = schema_of(session.connection()).state
    return state not in ("missing", "older")


def is_first_start(services: Services) -> bool:
    """Whether no account exists. A seed is one transaction, so after an interrupted start it is loaded by the next."""
    with services.database.read() as session:
        return session.scalar(select(Account.id).limit(1)) is None


def seed(services: Services, path: Path, substitutions: dict[str, str]) -> None:
    """Loads a seed file. Raises `StartError`."""
    try:
        with limit_waits(COMMAND):
            load_seed(services, path, substitutions)
    except SeedError as error:
        raise StartError(f"{path}: {error}", status=2) from None
