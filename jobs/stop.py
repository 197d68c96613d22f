"""The request to stop a process, made by SIGTERM or SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from rq.exceptions import StopRequested


class Stop:
    """Sets an event, which the current work checks, and leaves a block that may be interrupted at once.

    A handler runs between any two instructions of the main thread, including those of another handler. The interrupted
    code may hold the lock of the event, or one that is needed to start a thread; so another thread, started before,
    sets the event, and is notified through the one queue whose `put` takes no lock.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self.requested = False
        self._stopping = stopping
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._waiting = False

    def catch_signals(self) -> None:
        """Installs the handlers; a second signal changes nothing."""
        threading.Thread(target=self._set_when_told, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    @contextmanager
    def may_interrupt(self) -> Iterator[None]:
        """A block without a job: a signal leaves it at once, by `StopRequested`."""
        self._waiting = True
        try:
            if self.requested:
                raise StopRequested
            yield
        finally:
            self._waiting = False

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._signals.put(number)
        if self._waiting:
            raise StopRequested

    def _set_when_told(self) -> None:
        self._signals.get()
        self._stopping.set()
