"""The supervisor: restarts processes that end, and stops all of them in order within ten seconds.

The pause before a restart grows while a process keeps ending. The service is useless without its API, so if that keeps
ending, the service logs it and ends.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from app.infrastructure import liveness

logger = logging.getLogger(__name__)


# One process of the service: starting, restarting and ending it.

PR_SET_PDEATHSIG = 1
MIN_PAUSE = 0.5
MAX_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""A process that ran for this long is restarted after the shortest pause."""
GROUP_GRACE = 6.0
"""Seconds for the processes that a dead one has started to end: a request in progress gets 5."""
LOOK_INTERVAL = 0.1


@dataclass(slots=True)
class Child:
    """A command that is kept running. When an `essential` one keeps ending, the service ends."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    essential: bool = False
    inherited: tuple[int, ...] = ()
    """Open files that the process gets at its start."""
    pause: float = 0.0
    """Seconds between an end and the next start; grows while the process keeps ending."""
    restart_time: float | None = None
    """When to restart it, by the monotonic clock; None while it runs."""
    deaths: int = 0
    """How often it has ended in a row, each time soon after its start."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _started: float = 0.0
    _died: float = 0.0

    def start(self) -> None:
        """Starts the process in its own session: Ctrl-C reaches only the launcher, which ends the processes in
        order."""
        self.restart_time = None
        self._started = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - the commands are ours
            self.command,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self.inherited,
            preexec_fn=_follower_of(os.getpid()),  # noqa: PLW1509 - the launcher has no threads
        )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        return None if self._process is None else self._process.poll()

    def plan_restart(self) -> None:
        """Sets `restart_time` with a growing pause, and asks the processes that it has started to end."""
        self._died = time.monotonic()
        steady = self._died - self._started > STEADY_SECONDS
        self.deaths = 1 if steady else self.deaths + 1
        self.pause = MIN_PAUSE if steady or not self.pause else min(self.pause * 2, MAX_PAUSE)
        self.restart_time = self._died + self.pause
        self._signal_group(signal.SIGTERM)

    def start_again(self) -> None:
        """Restarts the process once it is time and its old process group, which may still hold the port, is gone. If
        the system cannot start a process now, another time is planned."""
        moment = time.monotonic()
        if self.restart_time is None or moment < self.restart_time:
            return
        if self._signal_group(0) and moment < self._died + GROUP_GRACE:
            self.restart_time = moment + LOOK_INTERVAL
            return
        self._signal_group(signal.SIGKILL)
        try:
            self.start()
        except (OSError, subprocess.SubprocessError) as error:
            self._process = None
            self.pause = min(self.pause * 2, MAX_PAUSE)
            self.restart_time = time.monotonic() + self.pause
            logger.error("%s cannot be started (%s), trying again in %g s", self.name, error, self.pause)

    def _signal_group(self, number: int) -> bool:
        """Sends a signal to the process group; returns whether the group still has a process."""
        if self._process is None:
            return False
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def ask_to_end(self) -> None:
        """Sends SIGTERM to the process alone; it ends those that it has started."""
        if self._process is not None and self.alive:
            self._process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL to the process and its whole group."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()


def _follower_of(launcher: int) -> Callable[[], None] | None:
    """A function that a new process runs first. It makes the kernel terminate the process when the launcher dies (Linux
    only)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def follow() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != launcher:
            os._exit(1)

    return follow


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE = 7.0
"""Seconds in which requests and messages in progress may finish."""
MAX_DEATHS = 5
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
        liveness.ready()
        while not self.stop_requested:
            liveness.report()
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
        if child.essential and child.deaths >= MAX_DEATHS:
            logger.error(
                "%s keeps ending (%s), so the service ends; its last log lines show the reason",
                child.name,
                child.status,
            )
            return False
        logger.error("%s has ended (%s), starting again in %g s", child.name, child.status, child.pause)
        return True

    def _seconds_to_restart(self) -> float:
        planned = [child.restart_time for child in (*self.first, *self.others) if child.restart_time is not None]
        until_restart = max(0.0, min(planned) - time.monotonic()) if planned else liveness.seconds
        return min(until_restart, liveness.seconds)

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
