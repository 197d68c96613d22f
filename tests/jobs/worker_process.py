"""A real worker process whose job writes its progress to a file.

While the folder contains a file named `busy`, a job runs until it is asked to stop; with `fail` it raises. It waits an
hour for a wake-up, and with `--long-pauses` between two looks for work without Redis: only a signal ends that.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

from redis import Redis

from app.infrastructure import logs
from app.services import make_services
from app.settings import from_environment
from jobs import worker
from jobs.stop import Stop

MARK = "a-callback-was-called"
LONG_PAUSES = "--long-pauses"
HOUR = 3600.0


def note_callback(_job: object, connection: Redis, *_failure: object) -> None:
    """A callback that a foreign job may name."""
    connection.set(MARK, 1)


def main(folder: Path, redis_url: str, *options: str) -> None:
    worker.WAIT_SECONDS = int(HOUR)
    if LONG_PAUSES in options:
        worker.LOOK_SECONDS = HOUR
    settings = from_environment({"DATA_DIR": str(folder), "REDIS_URL": redis_url, "LOG_FORMAT": "json"})
    logs.configure(settings)
    parts = make_services(settings)

    def note(what: str) -> None:
        with (folder / "notes").open("a") as notes:
            notes.write(f"{what} {os.getpid()}\n")

    def drain() -> None:
        fails = (folder / "fail").exists()  # before the note, after which the test removes it
        note("began")
        while (folder / "busy").exists() and not parts.stopping.wait(0.01):
            pass
        if fails:
            raise ValueError("as the test demands")
        note("ended")

    door = types.ModuleType("jobs.sends")
    door.drain = drain  # type: ignore[attr-defined]
    sys.modules["jobs.sends"] = door
    stop = Stop(parts.stopping)
    stop.catch_signals()
    worker.run(parts, ["sends"], stop)
