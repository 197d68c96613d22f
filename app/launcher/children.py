"""One process of the service: starting, restarting and ending it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""A process that ran for this long is restarted after the shortest pause."""
GROUP_GRACE = 6.0
"""Seconds for the processes that a dead one has started to end: a request in progress gets 5."""
LOOK_AGAIN = 0.1


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
        self.pause = SHORTEST_PAUSE if steady or not self.pause else min(self.pause * 2, LONGEST_PAUSE)
        self.restart_time = self._died + self.pause
        self._signal_group(signal.SIGTERM)

    def start_again(self) -> None:
        """Restarts the process once it is time and its old process group, which may still hold the port, is gone."""
        moment = time.monotonic()
        if self.restart_time is None or moment < self.restart_time:
            return
        if self._signal_group(0) and moment < self._died + GROUP_GRACE:
            self.restart_time = moment + LOOK_AGAIN
            return
        self._signal_group(signal.SIGKILL)
        self.start()

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
