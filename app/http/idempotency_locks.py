"""Which requests are in hand: a claim in the database names one, and whether that has ended is known at once to every
process of the same machine.

Each process keeps a file with a lock on its first byte for as long as it lives, and one on a byte for each request in
hand. The system takes locks away when a process dies, so none outlives its request, whatever ended it. The locks are
those of `fcntl`, which belong to a process: its own file it must not open twice, and need not.
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
"""For which the file of a dead process stays, by which its claims are known to have ended; longer than any lease."""

logger = logging.getLogger(__name__)


class RequestsInHand:
    """Those of this process."""

    def __init__(self, folder: Path) -> None:
        self.name = new_process_name()
        self._folder = folder
        self._numbers = itertools.count(1)
        self._present: set[int] = set()
        self._descriptor = self._open()

    def _open(self) -> int | None:
        """None where the folder cannot be written: then others know of the end of a request by its lease."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _clear_away(self._folder)
            descriptor = os.open(self._folder / f"{self.name}{SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            logger.warning("cannot keep %s: %s", self._folder, error)
            return None
        return descriptor

    @contextlib.contextmanager
    def one(self) -> Iterator[str]:
        """The name of a request that is in hand inside the block."""
        number = next(self._numbers)
        self._present.add(number)
        self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number)
        try:
            yield f"{self.name}:{number}"
        finally:
            self._lock(fcntl.LOCK_UN, number)
            self._present.discard(number)

    def _lock(self, how: int, number: int) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, how, 1, number)

    def has_ended(self, holder: str) -> bool | None:
        """Whether the request of that name has ended; None for one that this machine knows nothing of."""
        name, _, number = holder.rpartition(":")
        if not number.isdigit() or not name or "/" in name:
            return None
        if name == self.name:
            return int(number) not in self._present
        try:
            descriptor = os.open(self._folder / f"{name}{SUFFIX}", os.O_RDWR)
        except OSError:
            return None
        try:
            return _is_free(descriptor, int(number))
        finally:
            os.close(descriptor)


_making = threading.Lock()


def requests_in_hand(folder: Path) -> RequestsInHand:
    """Those of this process, in that folder."""
    with _making:
        return _made(folder, os.getpid())


@cache
def _made(folder: Path, _process: int) -> RequestsInHand:
    return RequestsInHand(folder)


def _is_free(descriptor: int, number: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True


def _clear_away(folder: Path) -> None:
    """Files of processes that died long ago. A file has its first byte when somebody has found its process dead, and
    with it the time of that."""
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                if not _is_free(descriptor, 0):
                    continue
                found = os.fstat(descriptor)
                age = time.time() - found.st_mtime
                if found.st_size and age > KEPT_SECONDS:
                    path.unlink()
                elif not found.st_size and age > 1:
                    os.write(descriptor, b"\n")
            finally:
                os.close(descriptor)
