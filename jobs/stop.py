"""The request to stop a process, made by SIGTERM or SIGINT, or to replace it by newer code, made by SIGUSR2."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from rq.exceptions import StopRequested

from app.infrastructure import replacing


class Stop:
    """Sets an event, which the current work checks, and leaves a block that may be interrupted at once.

    A handler runs between any two instructions of the main thread, including those of another handler. The interrupted
    code may hold the lock of the event, or one that is needed to start a thread; so another thread, started before,
    sets the event, and is notified through the one queue whose `put` takes no lock.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self.requested = False
        self.is_replaced = False
        self._stopping = stopping
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._waiting = False

    def catch_signals(self) -> None:
        """Installs the handlers; a second signal changes nothing."""
        threading.Thread(target=self._do_what_is_told, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT, replacing.SIGNAL):
            signal.signal(number, self._on_signal)
        replacing.accept_signals()

    def end(self) -> None:
        """Runs the newer code of the process, if it was asked to. Called at the end of the process."""
        if self.is_replaced:
            replacing.run_again(os.environ)

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
        if number == replacing.SIGNAL:
            self._signals.put(number)
            return
        if self.requested:
            self.is_replaced = False  # a second request is to stop, whatever the first one was
        self.requested = True
        self._signals.put(number)
        if self._waiting:
            raise StopRequested

    def _do_what_is_told(self) -> None:
        while self._signals.get() == replacing.SIGNAL:
            if not self.requested and replacing.new_code_starts(os.environ, is_stopped=lambda: self.requested):
                self.is_replaced = True
                os.kill(os.getpid(), signal.SIGTERM)  # ends the work in the main thread as usual
        self._stopping.set()
