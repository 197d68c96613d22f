"""Liveness of the processes of this machine: each holds a lock on a file of its name, which the kernel releases when it
dies. So a file that can be locked proves that its process is dead, and its leases can be taken over at once instead of
after they expire.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".alive"
DRAFT = ".draft"
"""A suffix that no pattern for finished files matches; `Path.glob` would match a leading dot."""

OLD_DRAFT = 60.0
"""Seconds; a draft is renamed within milliseconds."""


def new_process_name() -> str:
    """A name that no other process has or had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


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
    """Returns whether the process of the file is dead; if so, the file is locked until `locks` is closed."""
    try:
        return lock_if_free(path, os.O_RDONLY, locks)
    except FileNotFoundError:
        return False


def lock_if_free(path: Path, flags: int, locks: contextlib.ExitStack) -> bool:
    """Opens the file with `flags` and returns whether its lock was free; if so, the lock is held until `locks` is
    closed. Raises `OSError` for a file that cannot be opened."""
    descriptor = os.open(path, flags, 0o600)
    locks.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def registered_name(folder: Path) -> str:
    """The name under which this process is registered in the folder, from the first call to its end. As long as that is
    impossible, its death is noticed only by the end of its leases."""
    name = _own_name(folder)
    if folder not in _registered:
        try:
            create_locked(folder / f"{name}{SUFFIX}")
            _registered.add(folder)
        except OSError as error:
            logger.warning("this process cannot be registered in the data folder: %s", error)
    return name


@functools.cache
def _own_name(_folder: Path) -> str:
    return new_process_name()


_registered: set[Path] = set()
"""The folders in which this process is registered."""
logger = logging.getLogger(__name__)


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
