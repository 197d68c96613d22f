"""The running processes of the service on this machine with this data folder, and their databases: a command that uses
another database warns of it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from app.db.url import without_credentials
from app.infrastructure import signs_of_life
from app.infrastructure.liveness import (
    SUFFIX,
    create_locked,
    dead_processes,
    live_processes,
    lock_if_dead,
    new_process_name,
)
from app.settings import Settings

logger = logging.getLogger(__name__)

REFUSED = ".refused"
ANSWERING = ".answering"
_own_files: list[Path] = []
"""The file of this process, once it is registered."""

ROLES = ("background", "web")
"""In the order in which an upgrade replaces the processes: newer code writes what older code may not know, so whoever
reads it comes first."""


def register(settings: Settings, role: str = "") -> None:
    """Registers this process until it ends, by the file of its signs of life. A failure costs only that warning. `role`
    is that of a process that can be replaced in place (app/infrastructure/replacing.py)."""
    folder = settings.data_dir / "processes"
    name = f"{new_process_name()}.{role}" if role else new_process_name()
    try:
        path = folder / f"{name}{SUFFIX}"
        signs_of_life.keep(create_locked(path, without_credentials(settings.database_url).encode()))
        _own_files[:] = [path]
        with dead_processes(folder):
            pass  # removes the files of dead processes
        for refusal in folder.glob(f"*{REFUSED}"):
            if not refusal.with_suffix(SUFFIX).exists():
                refusal.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("this process cannot be registered in the data folder: %s", error)


def register_answering(settings: Settings) -> None:
    """Registers this process, which answers requests for its parent, the process of the API, until it ends. A failure
    costs only that an upgrade does not wait for it."""
    folder = settings.data_dir / "processes"
    try:
        create_locked(folder / f"{_beginning(os.getppid())}{secrets.token_hex(4)}{ANSWERING}")
        with contextlib.ExitStack() as locks:
            for path in folder.glob(f"*{ANSWERING}"):
                if lock_if_dead(path, locks):
                    path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("this process cannot be registered in the data folder: %s", error)


def answering(settings: Settings, process: Process) -> set[Path]:
    """Files of the processes that answer requests for that one. Raises `OSError`."""
    found = (settings.data_dir / "processes").glob(f"{_beginning(process.pid)}*{ANSWERING}")
    with contextlib.ExitStack() as locks:
        return {path for path in found if path.exists() and not lock_if_dead(path, locks)}


def _beginning(pid: int) -> str:
    return f"{socket.gethostname()}-{pid}-"


def databases(settings: Settings) -> set[str]:
    """The databases of the running processes."""
    found = set()
    with contextlib.suppress(OSError):
        for path in live_processes(settings.data_dir / "processes"):
            found.add(path.read_text("utf-8", "replace"))
    return found


def note_refusal() -> None:
    """Code that this process was asked to run has not started."""
    for path in _own_files:
        with contextlib.suppress(OSError):
            path.with_suffix(REFUSED).touch()


class Process(NamedTuple):
    """A running process. `role` is `background`, `web`, or empty for one that cannot be replaced in place."""

    pid: int
    role: str
    file: Path
    """Locked as long as the process runs the code that it runs now."""

    @property
    def refusal(self) -> Path:
        """A file that is there after the process was asked to run other code, which did not start."""
        return self.file.with_suffix(REFUSED)


def processes(settings: Settings) -> list[Process]:
    """The running processes of the service on this host, those first that are to be replaced first: containers with
    host names of their own may share the folder. Raises `OSError`."""
    own = f"{socket.gethostname()}-"
    registered = live_processes(settings.data_dir / "processes")
    found = [_process(path) for path in registered if path.name.startswith(own)]
    return sorted(found, key=lambda one: (ROLES.index(one.role) if one.role in ROLES else -1, one.pid))


def _process(path: Path) -> Process:
    name, _, role = path.name.removesuffix(SUFFIX).rpartition(".")
    if role not in ROLES:
        name, role = path.name.removesuffix(SUFFIX), ""
    return Process(int(name.rsplit("-", 2)[1]), role, path)
