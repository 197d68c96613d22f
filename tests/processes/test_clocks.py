"""Processes whose clock differs from that of the database (docs/crash-safety.md#clocks)."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import orjson
from sqlalchemy import NullPool, Row, create_engine, text

from tests.support.cases import each
from tests.support.launched import PATIENT, ROOT, LaunchedService
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, free_port, migrated_database, scratch_database, short_folder, wait_until

HOOKS = str(ROOT / "tests" / "chaos" / "broken")
COMMANDS = {
    "a worker": ("jobs.worker", "sends"),
    "the scheduler": ("jobs.schedule",),
    "a listener": ("jobs.inbound",),
    "the API": ("gunicorn", "wsgi:application"),
    "the launcher": ("app.launcher",),
}
AHEAD = "this host's clock is {} s ahead of that of the database"
FOLLOWS = "this process goes by the database's time until the two agree"


def set_clock(folder: Path, seconds: int) -> None:
    """Sets it so many seconds ahead, and as much more as a comparison that takes long may leave out."""
    draft = folder / "clock.draft"
    draft.write_text(str(seconds and seconds + math.copysign(0.4, seconds)))
    draft.replace(folder / "clock")


def stepped(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of processes whose clock is so many seconds ahead."""
    set_clock(folder, seconds)
    paths = os.pathsep.join((HOOKS, PATIENT["PYTHONPATH"]))
    return {"CHAOS_HOOKS": "host-clock,frequent-heartbeats", "CHAOS_CLOCK": str(folder / "clock"), "PYTHONPATH": paths}


def started(command: tuple[str, ...], folder: Path, database_url: str, seconds: int) -> tuple[int, list[str]]:
    """Exit status of a process that was to start with such a clock, and the lines that are no log. One that can start
    ends after it has checked that."""
    environ = {"DATA_DIR": str(folder), "DATABASE_URL": database_url, "PORT": str(free_port()), "TMS_CHECK_START": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, **environ, **stepped(folder, seconds)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return ended.returncode, [line for line in ended.stderr.splitlines() if not line.startswith("{")]


@each(("name", "seconds", "difference"), [*((name, 30, "ahead of") for name in COMMANDS), ("a worker", -30, "behind")])
def test_no_process_starts_with_a_clock_that_is_half_a_minute_off(
    postgres: str, name: str, seconds: int, difference: str
) -> None:
    with short_folder() as folder, migrated_database(postgres) as url:
        refusal = started(COMMANDS[name], folder, url, seconds)
    problem = f"this host's clock is 30 s {difference} that of the database"
    assert refusal == (1, [f"cannot start: {problem}: set the one that is wrong, by NTP for example"])


def test_a_clock_that_is_three_seconds_off_refuses_no_start(postgres: str) -> None:
    with short_folder() as folder, migrated_database(postgres) as url:
        assert started(COMMANDS["a worker"], folder, url, 3) == (0, [])


def test_with_sqlite_no_clock_is_compared() -> None:
    with short_folder() as folder:
        url = migrated_file(folder / "tms.sqlite3")
        assert started(COMMANDS["a worker"], folder, url, 30) == (0, [])


class ClockedService:
    """A service with a database on a server, whose clock can be set."""

    def __init__(self, folder: Path, url: str) -> None:
        self.service = LaunchedService(
            folder, (sys.executable, "-m", "app.launcher"), DATABASE_URL=url, **stepped(folder, 3)
        )
        self._engine = create_engine(url, poolclass=NullPool)

    def rows(self, statement: str) -> list[Row[tuple[object, ...]]]:
        """The rows of a statement."""
        with self._engine.connect() as connection:
            return list(connection.execute(text(statement)))

    def messages(self) -> list[str]:
        """What its processes have logged of their clocks."""
        records = [orjson.loads(line) for line in self.service.output().splitlines() if line.startswith("{")]
        return [line["message"] for line in records if line["logger"] == "app.infrastructure.clock_watch"]

    def step(self, seconds: int, message: str) -> None:
        """Sets the clock of the service's host, and waits until each of its processes has said so."""
        set_clock(self.service.folder, seconds)
        self.wait(message)

    def wait(self, message: str) -> None:
        """Waits until each process has said it once."""
        number = len(self.rows("SELECT name FROM processes"))
        wait_until(lambda: self.messages().count(message) == number, f"{number} processes say: {message}")


def test_a_running_process_says_what_its_clock_does_and_goes_by_the_databases_time(
    postgres: str, tmp_path: Path
) -> None:
    roles = ["api", "api", "automations", "scheduler", "sends", "webhooks,maintenance"]
    with scratch_database(postgres) as url:
        clocked = ClockedService(tmp_path, url)
        service = clocked.service
        try:
            service.start()
            wait_until(lambda: len(clocked.rows("SELECT name FROM processes")) == len(roles), "all have started")
            clocked.wait(AHEAD.format(3))
            clocked.step(7200, f"{AHEAD.format(7200)}: {FOLLOWS}")
            service.send(["ann@example.com"])
            wait_until(lambda: service.mails() == 1, "the mail is sent")
            times = "creation_time BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'"
            assert clocked.rows(f"SELECT {times} FROM sends") == [(True,)]
            wait_until(lambda: _is_told(clocked), "the heartbeats tell of it")
            clocked.step(0, "this host's clock agrees with that of the database again")
            assert sorted(row.roles for row in clocked.rows("SELECT roles FROM processes")) == roles
            assert len(clocked.messages()) == 3 * len(roles)
            service.stop()
        finally:
            service.clear()


def _is_told(clocked: ClockedService) -> bool:
    """Whether the command says what is wrong. It warns of its own clock, too."""
    told = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", "status"],
        cwd=ROOT,
        env=clocked.service.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert told.stderr == f"{AHEAD.format(7200)}: this command goes by the time of the database\n"
    return "2 h ahead of that of the database: no process can be started there (TmsClockWrong)" in told.stdout
