"""The supervisor: restarts processes that end, and stops all of them in order within ten seconds.

The pause before a restart grows while a process keeps ending. The service is useless without its API, so if that keeps
ending, the service logs it and ends.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from app.infrastructure import signs_of_life
from app.launcher.children import Child

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE = 7.0
"""Seconds in which requests and messages in progress may finish."""
MOST_DEATHS = 5
"""After that many ends in a row, each soon after a start, the service gives up an essential process and ends."""
LAST_GRACE = 1.5
"""Seconds for Redis, which ends last."""


class Supervisor:
    """The processes of the service."""

    def __init__(self) -> None:
        self.first: list[Child] = []
        """Started before the others and ended after them."""
        self.others: list[Child] = []
        self.stop_requested = False
        self._signals: SimpleQueue[int] = SimpleQueue()  # its put may be called in a signal handler

    def catch_signals(self) -> None:
        """Handles the signals that stop the service, SIGHUP unless it is ignored (nohup)."""
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            signal.signal(number, lambda signum, _frame: self._signals.put(signum))

    def start(self, child: Child, *, first: bool = False) -> None:
        """Starts a process and supervises it from now on."""
        (self.first if first else self.others).append(child)
        child.start()

    def wait(self, seconds: float) -> None:
        """Waits for a signal, at most that long, and records whether the service is asked to stop."""
        try:
            number = self._signals.get(timeout=seconds)
        except Empty:
            return
        self.stop_requested = self.stop_requested or number in STOP_SIGNALS

    def watch(self) -> int:
        """Restarts processes until the service must end; returns its exit status, 0 if it was asked to stop."""
        signs_of_life.ready()
        while not self.stop_requested:
            signs_of_life.report()
            for child in (*self.first, *self.others):
                if not child.alive and not self._restart(child):
                    return 1
            self.wait(self._seconds_to_restart())
        return 0

    def _restart(self, child: Child) -> bool:
        """Plans or performs the restart of a process that has ended; False if the service must end without it."""
        if child.restart_time is not None:
            child.start_again()
            return True
        child.plan_restart()
        if child.essential and child.deaths >= MOST_DEATHS:
            logger.error(
                "%s keeps ending (%s), so the service ends; see its last lines for the reason", child.name, child.status
            )
            return False
        logger.error("%s has ended (%s), starting again in %g s", child.name, child.status, child.pause)
        return True

    def _seconds_to_restart(self) -> float:
        planned = [child.restart_time for child in (*self.first, *self.others) if child.restart_time is not None]
        until_restart = max(0.0, min(planned) - time.monotonic()) if planned else signs_of_life.seconds
        return min(until_restart, signs_of_life.seconds)

    def stop(self) -> None:
        """Ends all processes: first all others at once, then those that they use."""
        self._end(self.others, GRACE)
        self._end(self.first, LAST_GRACE)

    def _end(self, children: Iterable[Child], seconds: float) -> None:
        children = list(children)
        deadline = time.monotonic() + seconds
        for child in children:
            child.ask_to_end()
        while any(child.alive for child in children) and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        for child in children:
            if child.alive:
                logger.warning("%s does not end, killing it", child.name)
            child.kill()
