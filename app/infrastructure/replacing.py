"""Replacing a running process by the code that is installed now (docs/upgrade.md).

SIGUSR2 asks a process to. It first starts the new code beside itself, only to check that it can start, and goes on as
it was if not. Otherwise it finishes what it has in hand and runs its own command line again, in the same process: its
id stays, so whatever supervises it notices nothing.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from app.infrastructure import liveness

logger = logging.getLogger(__name__)

SIGNAL = signal.SIGUSR2
CHECK = "TMS_CHECK_START"
"""Variable of a process that ends once it knows that it could start."""
CHECK_SECONDS = 120.0
TYPED = "TMS_COMMAND"
"""Variable with the id of a process and the `tms` command that it was started by."""
UNPREPARED_SIGNALS = {signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU}
"""Signals that would end the process before the new code has its handlers; they wait until then."""


def remember_command(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command that replaces this one (`tms web`), so that it knows by which it was started: the
    path of an installed script may be a link, which leads to the environment of another release by then."""
    typed = [os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    return {**environment, TYPED: json.dumps([os.getpid(), typed])}


def command() -> list[str]:
    """The command line of this process, or of the `tms` command that it was started by."""
    pid, typed = json.loads(os.environ.get(TYPED, "[0, []]"))
    return list(typed) if pid == os.getpid() else [sys.executable, *sys.orig_argv[1:]]


def new_code_starts(
    environment: Mapping[str, str],
    folder: str | None = None,
    meanwhile: Callable[[], object] = lambda: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> bool:
    """Whether the command starts with the settings and the database of this process; otherwise the reason is in the
    log. `meanwhile` is called each second, and so is `is_stopped`: whether this process is to end, which needs no
    newer code."""
    variables = {name: value for name, value in environment.items() if name != "NOTIFY_SOCKET"}  # systemd hears nothing
    try:
        environ = {**variables, CHECK: "1"}
        with subprocess.Popen(command(), env=environ, cwd=folder, stdin=subprocess.DEVNULL) as process:  # noqa: S603 - our own
            status = _wait(process, meanwhile, is_stopped)
    except OSError as error:
        logger.error("this process keeps running the old code, because the installed code cannot be run: %s", error)
        liveness.note_refusal()
        return False
    if status:
        if not is_stopped():
            logger.error(
                "this process keeps running the old code, because the installed code exits with status %s", status
            )
        liveness.note_refusal()
    return status == 0


def _wait(process: subprocess.Popen[bytes], meanwhile: Callable[[], object], is_stopped: Callable[[], bool]) -> int:
    """The exit status of the process, which is killed if it takes too long, or if this one is to end."""
    deadline = time.monotonic() + CHECK_SECONDS
    while time.monotonic() < deadline and not is_stopped():
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            meanwhile()
    process.kill()
    return process.wait()


def is_check() -> bool:
    """Whether this process only has to show that it could start."""
    return CHECK in os.environ


def end_check() -> None:
    """Ends a process that only had to show that it could start."""
    if is_check():
        raise SystemExit(0)


def run_again(environment: Mapping[str, str], folder: str | None = None) -> NoReturn:
    """Replaces this process. Raises `OSError` if the command cannot be run."""
    logger.info("this process now runs the installed code")
    sys.stdout.flush()
    sys.stderr.flush()
    line = command()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, UNPREPARED_SIGNALS)
    try:
        if folder is not None:
            os.chdir(folder)
        os.execvpe(line[0], line, dict(environment))  # noqa: S606 - our own command line
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def accept_signals() -> None:
    """The handlers are installed: signals that came before may be handled."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, UNPREPARED_SIGNALS)
