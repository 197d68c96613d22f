"""`flask reload`: the processes of this machine run the code that is installed now, one after the other, while the
service goes on (docs/upgrade.md)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
from flask.cli import with_appcontext

from app.cli.base import Command, Unavailable, echo
from app.http.context import services
from app.infrastructure import liveness, replacing
from app.infrastructure.liveness import Process

WAIT_SECONDS = 300.0
RETIRING_SECONDS = 330.0
"""How long retiring processes are waited for. They end by themselves after 300 seconds, and usually after
KEEPALIVE_SECONDS."""
PAUSE = 0.1


@click.command("reload", cls=Command)
@with_appcontext
def command() -> None:
    """Replace the running processes of this machine and DATA_DIR with new ones of the installed code, workers first."""
    settings = services().settings
    processes = liveness.processes(settings.data_dir)
    if not processes:
        raise Unavailable(f"no process of the service runs with the data folder {settings.data_dir}")
    for process in processes:
        if process.role:
            _replace(process)
            echo(f"process {process.pid} ({process.role}) runs the installed code")
    for process in processes:
        if not process.role:
            echo(f"process {process.pid} cannot load new code while it runs; restart it")


def _replace(process: Process) -> None:
    """Returns when the process has started with the new code, and none answers with the one from before."""
    before = liveness.answering(services().settings.data_dir, process)
    process.refusal.unlink(missing_ok=True)
    try:
        os.kill(process.pid, replacing.SIGNAL)
    except OSError as error:
        raise Unavailable(f"process {process.pid} cannot be reached: {error.strerror}") from None
    deadline = time.monotonic() + WAIT_SECONDS
    while not _has_started_again(process):
        if process.refusal.exists():
            raise Unavailable(f"process {process.pid} still runs the old code; its log says why")
        if time.monotonic() > deadline:
            raise Unavailable(f"process {process.pid} did not restart within {WAIT_SECONDS:g} seconds")
        time.sleep(PAUSE)
    _wait_for_retiring(process, before)


def _wait_for_retiring(process: Process, before: set[Path]) -> None:
    """API processes of the code from before end with the last connection that a client keeps."""
    deadline = time.monotonic() + RETIRING_SECONDS
    while left := before & liveness.answering(services().settings.data_dir, process):
        if time.monotonic() > deadline:
            raise Unavailable(f"{len(left)} API processes still run the old code")
        time.sleep(PAUSE)


def _has_started_again(process: Process) -> bool:
    processes = liveness.processes(services().settings.data_dir)
    return any(running.pid == process.pid and running.file != process.file for running in processes)
