"""Total deadline of a request: a timeout of the socket only bounds each single wait.

One thread watches all requests of a client. A timer per request would be a thread per request, which took as long as
signing it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Cuttable(Protocol):
    """An operation that another thread waits for."""

    def cut(self) -> None:
        """Ends the wait. Called with the watchdog's lock held: it must not call the watchdog."""


class Watchdog:
    """Its thread ends when it wakes up and finds nothing to watch; the next request starts another one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deadlines: dict[Cuttable, float] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    @contextmanager
    def cut_after(self, watched: Cuttable, seconds: float) -> Iterator[None]:
        """Cuts the operation if the block takes longer. One block at a time per object."""
        self._watch(watched, time.monotonic() + seconds)
        try:
            yield
        finally:
            with self._changed:
                self._deadlines.pop(watched, None)

    def restart(self, watched: Cuttable, seconds: float) -> None:
        """Gives the operation's block this many seconds from now on."""
        self._watch(watched, time.monotonic() + seconds)

    def _watch(self, watched: Cuttable, deadline: float) -> None:
        with self._changed:
            self._deadlines[watched] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="watchdog")
                self._thread.start()
            elif deadline < self._wakes_at:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._deadlines:
                self._wakes_at = min(self._deadlines.values())
                self._changed.wait(self._wakes_at - time.monotonic())
                moment = time.monotonic()
                for watched in [item for item, deadline in self._deadlines.items() if deadline <= moment]:
                    del self._deadlines[watched]
                    watched.cut()
            self._thread = None
