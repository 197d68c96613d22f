"""Liveness of the processes of this machine: each holds a lock on a file of its name, which the kernel releases when it
dies. So a file that can be locked proves that its process is dead, and its leases can be taken over at once instead of
after they expire. So does a name with the id of an earlier boot, whatever becomes of the lock: this folder belongs to
one machine, whose containers have its boot id. Names of earlier releases have none.

Every process is registered in `DATA_DIR/processes`. That it does not hang is shown by signs of life: every main loop
calls `report` at each turn (docs/health.md#signs-of-life). Every few seconds a sign touches that file, for the
health check of its container, and tells systemd's watchdog, where the process runs under one. A loop that hangs gives
none, so systemd restarts it. systemd's protocol is that of sd_notify(3): a line to the socket that NOTIFY_SOCKET names.

Other hosts cannot see these files: for them the process writes a row into the database
(app/infrastructure/heartbeat.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

SUFFIX = ".alive"
DRAFT = ".draft"
"""A suffix that no pattern for finished files matches; `Path.glob` would match a leading dot."""

OLD_DRAFT = 60.0
"""Seconds; a draft is renamed within milliseconds."""


def host_name() -> str:
    """The name of this host, as the rows of its processes have it."""
    return socket.gethostname()


@functools.cache
def boot_id() -> str:
    """The first digits of the id that the kernel has from the start of the machine to its end; empty where it has
    none."""
    try:
        return BOOT_ID_FILE.read_text("ascii").replace("-", "")[:BOOT_ID_DIGITS]
    except OSError:
        return ""


BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
BOOT_ID_DIGITS = 12
_BOOT_ID_IN_NAME = re.compile(rf"-[0-9]+-([0-9a-f]{{{BOOT_ID_DIGITS}}})[0-9a-f]{{8}}(?:\.|$)")


def is_of_earlier_boot(file_name: str) -> bool:
    """Whether a file of this machine belongs to a process that ran before the machine was started."""
    match = _BOOT_ID_IN_NAME.search(file_name)
    return match is not None and match[1] != (boot_id() or match[1])


def new_process_name() -> str:
    """A name that no other process has or had: host, process id, and the boot id with random digits behind it."""
    return f"{host_name()}-{os.getpid()}-{boot_id()}{secrets.token_hex(4)}"


def process_name() -> str:
    """The name of this process: of its files, of its leases, and of its row in the database."""
    return _name_of(os.getpid())


@functools.cache
def _name_of(_pid: int) -> str:
    """A process that is forked from this one has a name of its own."""
    return new_process_name()


def create_locked(path: Path, content: bytes = b"") -> int:
    """Creates the file, locked until the process ends or the returned descriptor, opened for appending, is closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed only once it is locked: otherwise it would look like a dead process's in between.
    draft = path.with_name(f"{path.name}{DRAFT}")
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_all(descriptor, content)
        draft.rename(path)
    except OSError:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
        raise
    return descriptor


def write_all(descriptor: int, content: bytes) -> None:
    """Writes all of it, which `os.write` may not. Raises `OSError`, possibly after a part is written."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def delete_stale_drafts(folder: Path) -> None:
    """Deletes drafts of processes that were killed while they created their files."""
    oldest = time.time() - OLD_DRAFT
    for draft in folder.glob(f"*{DRAFT}"):
        with contextlib.suppress(OSError):
            if draft.stat().st_mtime < oldest:
                draft.unlink()


def lock_if_dead(path: Path, locks: contextlib.ExitStack) -> bool:
    """Returns whether the process of the file is dead; if so, the file is locked until `locks` is closed, unless only
    its name shows it."""
    is_earlier = is_of_earlier_boot(path.name)
    try:
        return lock_if_free(path, os.O_RDONLY, locks) or is_earlier
    except FileNotFoundError:
        return False
    except OSError:
        if is_earlier:
            return True
        raise


def lock_if_free(path: Path, flags: int, locks: contextlib.ExitStack) -> bool:
    """Opens the file with `flags` and returns whether its lock was free; if so, the lock is held until `locks` is
    closed. It is not free if its owner has replaced the file meanwhile. Raises `OSError` for a file that cannot be
    opened."""
    descriptor = os.open(path, flags, 0o600)
    locks.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    return True


def registered_name(folder: Path) -> str:
    """The name under which this process is registered in the folder, from the first call to its end. As long as that is
    impossible, its death is noticed only by the end of its leases."""
    name = process_name()
    file = folder / f"{name}{SUFFIX}"
    if file not in _registered:
        try:
            create_locked(file)
            _registered.add(file)
        except OSError as error:
            logger.warning("this process cannot be registered in the data folder: %s", error)
    return name


_registered: set[Path] = set()
"""The files under which this process is registered; those of its parent do not count."""


@contextlib.contextmanager
def dead_processes(folder: Path) -> Iterator[list[str]]:
    """Names of registered processes that have died; removed after the block, unless it raises. One whose file cannot be
    opened is not known to have died; one whose file cannot be removed is named again."""
    with contextlib.ExitStack() as locks:
        dead = [path for path in sorted(folder.glob(f"*{SUFFIX}")) if _is_dead(path, locks)]
        yield [path.name.removesuffix(SUFFIX) for path in dead]
        with contextlib.suppress(OSError):
            for path in dead:
                path.unlink(missing_ok=True)
            delete_stale_drafts(folder)


def _is_dead(path: Path, locks: contextlib.ExitStack) -> bool:
    try:
        return lock_if_dead(path, locks)
    except OSError:
        return False


def live_processes(folder: Path) -> list[Path]:
    """The files of the live processes."""
    with contextlib.ExitStack() as locks:
        return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if not lock_if_dead(path, locks)]


# Signs of life.

SECONDS = 5.0
"""Between two signs; a quarter of the watchdog's time where that is shorter."""
STALE_SECONDS = 120.0
"""A process without a sign for so long hangs: a turn takes 30 seconds at most, and a statement as long again."""
SEND_SECONDS = 1.0


class SignsOfLife:
    """The signs of life of one process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._socket = environ.get("NOTIFY_SOCKET", "")
        watched = _watchdog_seconds(environ)
        self._is_watched = bool(watched and self._socket)
        self.seconds = min(SECONDS, watched / 4) if self._is_watched else SECONDS
        """Seconds between two signs."""
        self.turned = time.monotonic()
        """When the main loop last turned."""
        self._file: int | None = None
        self._next = 0.0

    def keep(self, file: int) -> None:
        """The descriptor of the file to touch, which replaces an earlier one."""
        if self._file is not None:
            os.close(self._file)
        self._file = file

    def leave(self) -> None:
        """In a process that was forked from this one: the file is not its own."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def report(self) -> None:
        """Called at each turn of the main loop, by its thread alone; it does something only when a sign is due."""
        self.turned = moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + self.seconds
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.utime(self._file)
        if self._is_watched:
            self._tell("WATCHDOG=1")

    def ready(self) -> None:
        """The process has started: its watchdog begins to watch."""
        self._tell("READY=1\nSTATUS=running")

    def starting(self, status: str) -> None:
        """The start takes longer, for the reason in the status: systemd waits for another while."""
        self._tell(f"STATUS={status}\nEXTEND_TIMEOUT_USEC={STALE_SECONDS * 1_000_000:.0f}")

    def _tell(self, state: str) -> None:
        """systemd may be away or busy; that must not end or delay the process."""
        if not self._socket:
            return
        address = "\0" + self._socket[1:] if self._socket.startswith("@") else self._socket
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(SEND_SECONDS)
            line.sendto(state.encode(), address)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """The time after which systemd restarts this process; 0 if it does not watch this one."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1_000_000 if microseconds.isascii() and microseconds.isdigit() else 0.0


_this_process = SignsOfLife(os.environ)
keep, leave, report, ready, starting = (
    _this_process.keep,
    _this_process.leave,
    _this_process.report,
    _this_process.ready,
    _this_process.starting,
)
seconds = _this_process.seconds


def turned() -> float:
    """When the main loop of this process last turned, on the monotonic clock."""
    return _this_process.turned


# The running processes of the service on this machine with this data folder, and their databases: a command that uses
# another database warns of it.

REFUSED_SUFFIX = ".refused"
ANSWERING_SUFFIX = ".answering"
_own_files: list[Path] = []
"""The file of this process, once it is registered."""

ROLES = ("background", "web")
"""In the order in which an upgrade replaces the processes: newer code writes what older code may not know, so whoever
reads it comes first."""


def register(data_dir: Path, database: str, role: str = "") -> None:
    """Registers this process until it ends, by the file of its signs of life, with the database as it is shown to
    people. A failure costs only that warning. `role` is that of a process that can be replaced in place
    (app/infrastructure/replacing.py)."""
    folder = data_dir / "processes"
    name = f"{process_name()}.{role}" if role else process_name()
    try:
        path = folder / f"{name}{SUFFIX}"
        keep(create_locked(path, database.encode()))
        _own_files[:] = [path]
        with dead_processes(folder):
            pass  # removes the files of dead processes
        for refusal in folder.glob(f"*{REFUSED_SUFFIX}"):
            if not refusal.with_suffix(SUFFIX).exists():
                refusal.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("this process cannot be registered in the data folder: %s", error)


def register_answering(data_dir: Path) -> None:
    """Registers this process, which answers requests for its parent, the process of the API, until it ends. A failure
    costs only that an upgrade does not wait for it."""
    folder = data_dir / "processes"
    try:
        create_locked(folder / f"{_beginning(os.getppid())}{process_name()}{ANSWERING_SUFFIX}")
        with contextlib.ExitStack() as locks:
            for path in folder.glob(f"*{ANSWERING_SUFFIX}"):
                if lock_if_dead(path, locks):
                    path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("this process cannot be registered in the data folder: %s", error)


def answering(data_dir: Path, process: Process) -> set[Path]:
    """Files of the processes that answer requests for that one. Raises `OSError`."""
    paths = (data_dir / "processes").glob(f"{_beginning(process.pid)}*{ANSWERING_SUFFIX}")
    with contextlib.ExitStack() as locks:
        return {path for path in paths if path.exists() and not lock_if_dead(path, locks)}


def _beginning(pid: int) -> str:
    return f"{host_name()}-{pid}-"


def databases(data_dir: Path) -> set[str]:
    """The databases of the running processes."""
    urls = set()
    with contextlib.suppress(OSError):
        for path in live_processes(data_dir / "processes"):
            urls.add(path.read_text("utf-8", "replace"))
    return urls


def note_refusal() -> None:
    """Code that this process was asked to run has not started."""
    for path in _own_files:
        with contextlib.suppress(OSError):
            path.with_suffix(REFUSED_SUFFIX).touch()


class Process(NamedTuple):
    """A running process. `role` is `background`, `web`, or empty for one that cannot be replaced in place."""

    pid: int
    role: str
    file: Path
    """Locked as long as the process runs the code that it runs now."""

    @property
    def refusal(self) -> Path:
        """A file that is there after the process was asked to run other code, which did not start."""
        return self.file.with_suffix(REFUSED_SUFFIX)


def processes(data_dir: Path) -> list[Process]:
    """The running processes of the service on this host, those first that are to be replaced first: containers with
    host names of their own may share the folder. Raises `OSError`."""
    host_prefix = f"{host_name()}-"
    registered = live_processes(data_dir / "processes")
    running = [_process(path) for path in registered if path.name.startswith(host_prefix)]
    return sorted(
        running, key=lambda process: (ROLES.index(process.role) if process.role in ROLES else -1, process.pid)
    )


def _process(path: Path) -> Process:
    name, _, role = path.name.removesuffix(SUFFIX).rpartition(".")
    if role not in ROLES:
        name, role = path.name.removesuffix(SUFFIX), ""
    return Process(int(name.rsplit("-", 2)[1]), role, path)
