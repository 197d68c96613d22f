"""Locks of requests that have claimed an idempotency key: every process of the machine can tell whether one has ended.

Each process has a file, with a lock on the first byte for as long as it lives and a lock on one more byte per request.
The operating system releases locks when a process dies, so none outlives its request, whatever ended it. They are
`fcntl` locks, which belong to a process: it must not open its own file twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from app.infrastructure.liveness import new_process_name

SUFFIX = ".requests"
KEPT_SECONDS = 3600
"""Seconds for which the file of a dead process is kept: it shows that its claims have ended. Longer than any lease."""

logger = logging.getLogger(__name__)


class IdempotencyLocks:
    """The locks of this process."""

    def __init__(self, folder: Path) -> None:
        self.name = new_process_name()
        self._folder = folder
        self._numbers = itertools.count(1)
        self._active: set[int] = set()
        self._descriptor = self._open()

    def _open(self) -> int | None:
        """None if the folder cannot be written: then other processes wait for the lease of a request to end."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _delete_stale_files(self._folder)
            descriptor = os.open(self._folder / f"{self.name}{SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            logger.warning("cannot keep %s: %s", self._folder, error)
            return None
        return descriptor

    @contextlib.contextmanager
    def acquire(self) -> Iterator[str]:
        """Locks a byte for the block; yields the name of the request, which is the holder of its claim."""
        number = next(self._numbers)
        self._active.add(number)
        self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number)
        try:
            yield f"{self.name}:{number}"
        finally:
            self._lock(fcntl.LOCK_UN, number)
            self._active.discard(number)

    def _lock(self, how: int, number: int) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, how, 1, number)

    def has_ended(self, holder: str) -> bool | None:
        """Whether the request of that name has ended; None for a request of another machine."""
        name, _, number = holder.rpartition(":")
        if not number.isdigit() or not name or "/" in name:
            return None
        if name == self.name:
            return int(number) not in self._active
        try:
            descriptor = os.open(self._folder / f"{name}{SUFFIX}", os.O_RDWR)
        except OSError:
            return None
        try:
            return _is_free(descriptor, int(number))
        finally:
            os.close(descriptor)


_creation = threading.Lock()


def idempotency_locks(folder: Path) -> IdempotencyLocks:
    """The locks of this process in that folder, created once."""
    with _creation:
        return _create(folder, os.getpid())


@cache
def _create(folder: Path, _process: int) -> IdempotencyLocks:
    return IdempotencyLocks(folder)


def _is_free(descriptor: int, number: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True


def _delete_stale_files(folder: Path) -> None:
    """Deletes files of processes that died long ago. The first process that finds the owner dead writes one byte, which
    sets the time of modification."""
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                if not _is_free(descriptor, 0):
                    continue
                status = os.fstat(descriptor)
                age = time.time() - status.st_mtime
                if status.st_size and age > KEPT_SECONDS:
                    path.unlink()
                elif not status.st_size and age > 1:
                    os.write(descriptor, b"\n")
            finally:
                os.close(descriptor)
