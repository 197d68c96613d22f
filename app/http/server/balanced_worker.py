"""gunicorn worker that balances connections between processes: one with fewer connections gets a new one.

Clients keep their connections, and a pool opens several at once. gunicorn's own worker accepts all of them in whichever
process wakes up first, and the other processors idle from then on. Here each process publishes its number of
connections in shared memory. A process with more connections than another defers accepting for a moment; if the
connection is still waiting then, it accepts it, so that a process that hangs keeps no client out.
"""

from __future__ import annotations

import mmap
import time
from ctypes import c_int, sizeof
from typing import Any

from app.http.server.buffering_worker import BufferingWorker
from app.infrastructure import memory

SLOTS = 256
UNUSED = -1
DEFER_SECONDS = 0.002
"""Seconds for which a connection is left to other processes."""

# Created in gunicorn's master, which loads this module before it forks the first process.
# Anonymous memory: a mapped file would end the process on a full disk.
_connection_counts: Any = (c_int * SLOTS).from_buffer(mmap.mmap(-1, SLOTS * sizeof(c_int)))
_connection_counts[:] = [UNUSED] * SLOTS


def accepting_workers() -> int:
    """How many processes accept connections. For the master."""
    return sum(count > UNUSED for count in _connection_counts)


def _slot(worker: Any) -> int:
    """`age` counts the processes that the master has started; there are never as many at once as slots."""
    return int(worker.age) % SLOTS


def child_exit(_server: object, worker: Any) -> None:
    """gunicorn's hook, called in the master: a process has ended."""
    _connection_counts[_slot(worker)] = UNUSED


def post_worker_init(_worker: object) -> None:
    """gunicorn's hook: the process is ready."""
    memory.tune()


class BalancedWorker(BufferingWorker):
    """A process of the API."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deferred_until = 0.0
        self.turned = time.monotonic()
        """When its main thread last turned."""

    def run(self) -> None:
        self.on_count(0)
        super().run()

    def accept(self, listener: Any) -> None:
        """Accepts a waiting connection, unless another process has fewer."""
        if self._should_defer():
            self._deferred_until = time.monotonic() + DEFER_SECONDS
            self.set_accepting(False)
            return
        super().accept(listener)

    def _should_defer(self) -> bool:
        """At most once per connection: after the delay it is accepted whatever the counts."""
        if time.monotonic() - self._deferred_until < DEFER_SECONDS:
            return False
        own = self.connections.count
        return any(UNUSED < count < own for count in _connection_counts)

    def set_accepting(self, wanted: bool) -> None:
        """Does not start accepting before the delay is over."""
        if not wanted or time.monotonic() >= self._deferred_until:
            super().set_accepting(wanted)

    def turn(self, timeout: float) -> None:
        """Ends the delay in time."""
        self.turned = time.monotonic()
        left = self._deferred_until - time.monotonic()
        super().turn(min(timeout, left) if left > 0 else timeout)

    def on_count(self, count: int) -> None:
        """Publishes the number for the other processes."""
        _connection_counts[_slot(self)] = count
        super().on_count(count)
