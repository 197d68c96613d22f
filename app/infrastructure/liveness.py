"""Which processes of this machine live: each keeps a lock on a file of its name, which the system takes away when it
dies. So a file that can be locked tells for certain that its process is gone, and what it held can be taken over at
once, without waiting for a lease to run out.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".alive"
DRAFT = ".draft"
"""The end of a name that no pattern for finished files matches; a leading dot would not keep `Path.glob` from it."""

OLD_DRAFT = 60.0
"""Seconds; a draft gets its name within a moment."""


def new_process_name() -> str:
    """A name for this process that no other one has or had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def create_locked(path: Path, content: bytes = b"") -> int:
    """Makes the file and locks it until the process ends or the descriptor, opened to append, is closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # It gets its name only once it is locked: nobody may take it for a dead process's in between.
    draft = path.with_name(f"{path.name}{DRAFT}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
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
    """The whole of it: `os.write` may write less than it is given. Raises `OSError`; some of it may be written then."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def delete_stale_drafts(folder: Path) -> None:
    """Deletes what processes left behind that were killed while they made their files."""
    longest_ago = time.time() - OLD_DRAFT
    for draft in folder.glob(f"*{DRAFT}"):
        with contextlib.suppress(OSError):
            if draft.stat().st_mtime < longest_ago:
                draft.unlink()


def lock_if_dead(path: Path, locks: contextlib.ExitStack) -> bool:
    """Whether the process of the file is gone; the file is then ours until `locks` is closed."""
    try:
        return lock_if_free(path, os.O_RDONLY, locks)
    except FileNotFoundError:
        return False


def lock_if_free(path: Path, flags: int, locks: contextlib.ExitStack) -> bool:
    """Whether nobody holds the lock of the file, opened with `flags`; it is then ours until `locks` is closed. Raises
    OSError for a file that cannot be opened."""
    descriptor = os.open(path, flags, 0o600)
    locks.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@functools.cache
def registered_name(folder: Path) -> str:
    """The name under which this process is present in the folder, from the first call to its end."""
    name = new_process_name()
    create_locked(folder / f"{name}{SUFFIX}")
    return name


@contextlib.contextmanager
def dead_processes(folder: Path) -> Iterator[list[str]]:
    """Names of processes that were present and have died. Unless the block raises, they are forgotten after it."""
    with contextlib.ExitStack() as locks:
        gone = [path for path in sorted(folder.glob(f"*{SUFFIX}")) if lock_if_dead(path, locks)]
        yield [path.name.removesuffix(SUFFIX) for path in gone]
        for path in gone:
            path.unlink(missing_ok=True)
        delete_stale_drafts(folder)


def live_processes(folder: Path) -> list[Path]:
    """The files of the processes that live."""
    with contextlib.ExitStack() as locks:
        return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if not lock_if_dead(path, locks)]
