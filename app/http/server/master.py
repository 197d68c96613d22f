"""gunicorn's master process, which can be replaced by newer code while its workers answer.

gunicorn's own SIGUSR2 starts a second master beside the first one, under another process id, and leaves it to the
operator to end the first; whatever supervises it takes that for its end. Its SIGHUP starts new workers with the old
code. Here either signal replaces the code of the master in place (app/infrastructure/replacing.py). The listening
sockets stay open all the time. The new code starts workers of its own; once all of them accept connections, the others
retire: they accept no more, and end with their last connection.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from gunicorn.arbiter import Arbiter

from app.http.server.worker import DRAIN_SECONDS, accepting_workers
from app.infrastructure import liveness, replacing, start_signal

logger = logging.getLogger(__name__)

WORKERS = "TMS_WEB_WORKERS"
"""Variable with the ids of the workers that are handed over."""
RETIRE_SIGNAL = signal.SIGUSR2
"""What tells a worker to end with its last connection. Workers of the next release must be told by the same signal."""
ENDING_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


class _Heartbeat:
    """Stands for the file by which gunicorn sees whether a worker is alive: a retiring worker limits itself."""

    def __init__(self) -> None:
        self._until = time.monotonic() + DRAIN_SECONDS

    def last_update(self) -> float:
        return self._until

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class Predecessor:
    """A worker that the code from before has started, as gunicorn's list of workers has it."""

    pid: int
    age: int = 0
    """The oldest go first when there are too many."""
    aborted: bool = False
    is_retiring: bool = False
    tmp: _Heartbeat = field(default_factory=_Heartbeat)


class Master(Arbiter):  # type: ignore[misc]
    """The master process."""

    WORKERS: dict[int, Any]

    def start(self) -> None:
        """Takes over the sockets and the workers of the code from before, if there was any."""
        self._is_asked_to_end = self._is_stopping = self._has_ended_older = False
        predecessors = [int(pid) for pid in os.environ.pop(WORKERS, "").split(",") if pid]
        super().start()
        replacing.accept_signals()
        if predecessors:
            self.spawn_workers()
            self.WORKERS.update((pid, Predecessor(pid)) for pid in predecessors)

    def signal(self, sig: int, frame: Any) -> None:
        """Queues a signal. One that ends this process also ends a check of newer code, behind which it would wait."""
        self._is_asked_to_end = self._is_asked_to_end or sig in ENDING_SIGNALS
        super().signal(sig, frame)

    def handle_usr2(self) -> None:
        """Replaces the code."""
        folder, begun = self.START_CTX["cwd"], start_signal.after_signal(self.cfg.env_orig)
        starts = replacing.new_code_starts(
            begun, folder, meanwhile=liveness.report, is_stopped=lambda: self._is_asked_to_end
        )
        if not starts or self._is_asked_to_end:  # the newer code would not know of that signal
            return
        environment = {name: value for name, value in begun.items() if not name.startswith("LISTEN_")}
        environment["GUNICORN_PID"] = str(os.getpid())
        environment["GUNICORN_FD"] = ",".join(str(listener.fileno()) for listener in self.LISTENERS)
        environment[WORKERS] = ",".join(map(str, self.WORKERS))
        try:
            replacing.run_again(environment, folder)
        except OSError:
            logger.exception("this process keeps running the old code")

    def handle_hup(self) -> None:
        """Goes on with the newly installed code, as after USR2."""
        self.handle_usr2()

    def manage_workers(self) -> None:
        """Called after each signal, and each second: a sign of life. gunicorn tells systemd itself that it is ready."""
        super().manage_workers()
        self._end_older_master()
        liveness.report()

    def kill_worker(self, pid: int, sig: int) -> None:
        """Ends a worker, or lets it retire."""
        if self._is_stopping or sig != signal.SIGTERM or not isinstance(self.WORKERS.get(pid), Predecessor):
            super().kill_worker(pid, sig)
        elif not self.WORKERS[pid].is_retiring and accepting_workers() >= self.num_workers:
            # Once: a second signal might meet a process that has ended its work, and would kill it.
            self.WORKERS[pid].is_retiring = True
            super().kill_worker(pid, RETIRE_SIGNAL)

    def stop(self, graceful: bool = True) -> None:
        """Ends all workers, the retiring ones too."""
        self._is_stopping = True
        super().stop(graceful)

    def _end_older_master(self) -> None:
        """A release that does not replace itself in place has started this process beside it."""
        if self.master_pid in (0, os.getpid()) or self.master_pid != os.getppid():
            return
        if accepting_workers() >= self.num_workers and not self._has_ended_older:
            self._has_ended_older = True
            logger.info("the process with the old code, %s, ends", self.master_pid)
            os.kill(self.master_pid, signal.SIGTERM)
