"""The worker process of the API: one that leaves a new connection to a process that holds fewer.

Clients keep their connections, and a pool opens several at once. gunicorn's own worker takes all of them in whichever
process wakes up first, and the other processors have nothing to do from then on. Here each process says in shared
memory how many connections it holds. Who holds more than another one lets a waiting connection lie for a moment; who
finds it still waiting then takes it, so that a process that hangs keeps nobody out.
"""

from __future__ import annotations

import mmap
import time
from ctypes import c_int, sizeof
from typing import Any

from app.http.server.buffering_worker import Reception
from app.infrastructure import memory

SLOTS = 256
NOBODY = -1
PAUSE = 0.002
"""Seconds for which a connection is left to the others."""

# Made in gunicorn's master, which loads this module before it makes the first process.
# Of no file: what is mapped from a file ends the process on a full disk.
_held: Any = (c_int * SLOTS).from_buffer(mmap.mmap(-1, SLOTS * sizeof(c_int)))
_held[:] = [NOBODY] * SLOTS


def _slot(worker: Any) -> int:
    """`age` counts the processes that the master has made; as many as there are slots never live at once."""
    return int(worker.age) % SLOTS


def child_exit(_server: object, worker: Any) -> None:
    """gunicorn's hook, called in the master: a process has ended, in whatever way."""
    _held[_slot(worker)] = NOBODY


def post_worker_init(_worker: object) -> None:
    """gunicorn's hook: the process is ready."""
    memory.tune()


class Worker(Reception):
    """One process of the API."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._declined_until = 0.0

    def accept(self, listener: Any) -> None:
        """Takes a waiting connection, unless another process should."""
        if self._leaves_it():
            self._declined_until = time.monotonic() + PAUSE
            self.set_accept_enabled(False)
            return
        super().accept(listener)
        self._publish()

    def _leaves_it(self) -> bool:
        """Once per connection: after a pause it is taken, whoever holds how many."""
        if time.monotonic() - self._declined_until < PAUSE:
            return False
        return any(NOBODY < held < self.nr_conns for held in _held)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Not before the pause is over."""
        if not enabled or time.monotonic() >= self._declined_until:
            super().set_accept_enabled(enabled)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """One turn of gunicorn's loop."""
        self._publish()
        super().wait_for_and_dispatch_events(timeout if self._accepting else min(timeout, PAUSE))

    def _publish(self) -> None:
        _held[_slot(self)] = self.nr_conns
