"""Keeps the processes running: starts again what dies, and ends all of them in order within ten seconds.

Pauses between two starts grow while a process keeps ending. Without an API the service is of no use, so when that keeps
ending, the service says so and ends.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from app.launcher.children import Child

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE = 7.0
"""Seconds for a request or a message in hand to be finished."""
MOST_DEATHS = 5
"""Ends in a row, each soon after the start, after which the service does not go on without an essential process."""
LAST_GRACE = 1.5
"""Seconds for Redis, once nobody uses it any more."""


class Supervisor:
    """The processes of the service."""

    def __init__(self) -> None:
        self.first: list[Child] = []
        """Started before the others and ended after them."""
        self.others: list[Child] = []
        self.stop_requested = False
        self._signals: SimpleQueue[int] = SimpleQueue()  # its put may be called in a signal handler

    def catch_signals(self) -> None:
        """SIGHUP is left alone where somebody ignores it (nohup)."""
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            signal.signal(number, lambda signum, _frame: self._signals.put(signum))

    def start(self, child: Child, *, first: bool = False) -> None:
        """Starts a process and keeps it from now on."""
        (self.first if first else self.others).append(child)
        child.start()

    def wait(self, seconds: float) -> None:
        """Until a signal comes or the time is over; notes a wish to stop."""
        try:
            number = self._signals.get(timeout=seconds)
        except Empty:
            return
        self.stop_requested = self.stop_requested or number in STOP_SIGNALS

    def watch(self) -> int:
        """Returns the exit status of the service once it shall end: 0 when asked to."""
        while not self.stop_requested:
            for child in (*self.first, *self.others):
                if not child.alive and not self._revive(child):
                    return 1
            self.wait(self._seconds_to_restart())
        return 0

    def _revive(self, child: Child) -> bool:
        """Plans or makes the next start of one that ended; False when the service has no use without it."""
        if child.restart_time is not None:
            child.start_again()
            return True
        child.plan_restart()
        if child.essential and child.deaths >= MOST_DEATHS:
            logger.error("%s keeps ending (%s), so the service ends; its last lines say why", child.name, child.status)
            return False
        logger.error("%s has ended (%s), starting again in %g s", child.name, child.status, child.pause)
        return True

    def _seconds_to_restart(self) -> float:
        planned = [child.restart_time for child in (*self.first, *self.others) if child.restart_time is not None]
        return max(0.0, min(planned) - time.monotonic()) if planned else 60.0

    def stop(self) -> None:
        """Ends everything: all others at once, then what they used."""
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
