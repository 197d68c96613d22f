"""Changes of a module in all processes of the service, for faults that nothing can cause from outside.

Every process imports `sitecustomize` of broken/ first, which applies the hook right after the module is loaded.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

Change = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Hook:
    """The module and its patch."""

    module: str
    change: Change


def stepped_clock(clock: Any) -> None:
    """The clock is as many seconds ahead as the file says that CHAOS_CLOCK names. It is the one that the service reads,
    by app/clock.py and time.time(); databases, Redis and the file system have clocks of their own. No comparison of
    the clocks notices it, as if that of the database's machine was set with it."""
    ahead, now, read, read_ns = _reader(), clock.now, time.time, time.time_ns
    clock.now = lambda: now() + timedelta(seconds=ahead())
    time.time = lambda: read() + ahead()
    time.time_ns = lambda: read_ns() + int(ahead() * 1e9)


def own_clock_of_host(clock: Any) -> None:
    """The clock of the host is as many seconds ahead as that file says, and the database's is right."""
    ahead = _reader()

    class SteppedTime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=ahead())

    clock.datetime = SteppedTime


def _reader() -> Callable[[], float]:
    file = Path(os.environ["CHAOS_CLOCK"])
    return lambda: float(file.read_text()) if file.exists() else 0.0


def frequent_heartbeats(heartbeat: Any) -> None:
    """Each process writes its heartbeat several times a second."""
    heartbeat.PERIOD = 0.2


def seconds_for_hours(settings: Any) -> None:
    """A retention of an hour lasts a second."""
    settings.UNITS_OF_RETENTION = {**settings.UNITS_OF_RETENTION, "h": "seconds"}


def small_turns(write_turns: Any) -> None:
    """Long jobs write two rows in a transaction, so that they have many."""
    write_turns.FIRST_ROWS = write_turns.MIN_ROWS = write_turns.MAX_ROWS = 2


def prompt_bulk_actions(ask: Any) -> None:
    """Bulk actions begin at once."""
    ask.UNDO_PERIOD = timedelta(0)


def killed_command(engine: Any) -> None:
    """The process is killed at the statement whose number CHAOS_KILL has, or so many seconds after it."""
    number, seconds = os.environ["CHAOS_KILL"].split()
    statements = itertools.count(1)

    def kill(*_: object) -> None:
        if next(statements) != int(number):
            return
        if not float(seconds):
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, float(seconds))  # its signal ends the process as abruptly

    engine.event.listen(engine.Engine, "before_cursor_execute", kill)


def deaf_commits(bounded_connection: Any) -> None:
    """A commit that fails counts as done. `make cluster ARGS=--broken` must notice it."""
    commit = bounded_connection.BoundedConnection.commit

    def deaf(self: Any) -> None:
        with suppress(bounded_connection.psycopg.Error):
            commit(self)

    bounded_connection.BoundedConnection.commit = deaf


def no_mirror(mirror: Any) -> None:
    """Results are not mirrored to Redis. `make cluster ARGS=--broken` must notice it."""
    mirror.Mirror.add = lambda *_: None


HOOKS = {
    "stepped-clock": Hook("app.clock", stepped_clock),
    "host-clock": Hook("app.clock", own_clock_of_host),
    "frequent-heartbeats": Hook("app.infrastructure.heartbeat", frequent_heartbeats),
    "deaf-commits": Hook("app.db.bounded_connection", deaf_commits),
    "no-mirror": Hook("app.sends.outcomes.mirror", no_mirror),
    "killed-command": Hook("app.db.engine", killed_command),
    "small-turns": Hook("app.db.write_turns", small_turns),
    "prompt-bulk-actions": Hook("app.bulk_actions.ask", prompt_bulk_actions),
    "seconds-for-hours": Hook("app.settings", seconds_for_hours),
}
