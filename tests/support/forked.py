"""Processes that start without importing anything again: they are forked from a server that has imported the service
once, and are as separate as any other process."""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import runpy
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import blueprints
from tests.support.servers import PATIENCE

IMPORTED = [
    *(
        "jobs.worker",
        "jobs.schedule",
        "jobs.inbound",
        "jobs.submission",
        "app.launcher.embedded_redis",
        "app.db.migrate",
    ),
    *("app.application", "app.http.server.master", "app.http.server.worker", "gunicorn.app.wsgiapp"),
    *(f"blueprints.{module.name}" for module in pkgutil.iter_modules(blueprints.__path__)),
    *("tests.conftest", "tests.support.forked", "tests.support.rows", "tests.unit.transports.mailserver"),
]
"""The modules that the server imports when it starts, which is before the first process: those of the service, and what
the modules with the functions import that a process calls."""

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(IMPORTED)


class ForkedProcess:
    """A process that calls a function of a module; what it prints to standard error is appended to the log."""

    def __init__(self, log: Path, function: Callable[..., object], *arguments: object) -> None:
        self._process = context.Process(target=_run, args=(log, function, *arguments), daemon=True)
        self._process.start()
        self._waiting = threading.Lock()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal unless the process has ended."""
        if self._process.exitcode is None:
            with suppress(ProcessLookupError):  # its exit status may come later than its end
                os.kill(self.pid, number)

    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.exitcode is not None

    def wait(self) -> int | None:
        """The exit status, negative for a signal; None if it does not end within PATIENCE. Several threads may wait."""
        with self._waiting:
            self._process.join(PATIENCE)
            return self._process.exitcode

    def kill(self) -> None:
        """Sends SIGKILL and waits for the end."""
        self._process.kill()
        self._process.join()


def run_module(environ: Mapping[str, str], name: str, *arguments: str) -> None:
    """Runs a module as `python -m` does, in a `ForkedProcess`, with these variables besides those of the server."""
    os.environ.update(environ)
    sys.argv = [name, *arguments]
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")  # that it has been imported
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run(log: Path, function: Callable[..., object], *arguments: object) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    function(*arguments)
