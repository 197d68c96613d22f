"""What a process does while it checks whether newer code starts (docs/upgrade.md#what-a-reload-does)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.databases.running import alone
from tests.support.launched import ROOT
from tests.support.listeners import own_process
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until
from tests.support.service_manager import ServiceManager, service_manager

HANGING_CODE = """
import os, time
if "TMS_CHECK_START" in os.environ:
    log = os.environ["CHECK_LOG"]
    print("checking", os.getpid(), file=open(log, "w"), flush=True)
    while not os.path.exists(log + ".go"):
        time.sleep(0.01)
    os._exit(0)
"""
COMMANDS = ["jobs.inbound", "jobs.schedule", "gunicorn wsgi:application"]


@dataclass(frozen=True)
class Checking:
    """A process that checks newer code, which hangs until `go` is called."""

    process: subprocess.Popen[bytes]
    check: Path
    manager: ServiceManager
    log: Path
    check_log: Path

    def go(self) -> None:
        self.check_log.with_name(f"{self.check_log.name}.go").touch()


@pytest.fixture(params=COMMANDS)
def checking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checking]:
    log, check_log = tmp_path / "log", tmp_path / "check"
    (tmp_path / "sitecustomize.py").write_text(HANGING_CODE)
    with alone(None) as parts, short_folder() as folder, service_manager(folder) as manager:
        environ = {
            **manager.environ,
            "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))),
            "CHECK_LOG": str(check_log),
            "PORT": str(free_port()),
            "WEB_WORKERS": "1",
            "REDIS_URL": parts.services.settings.redis_url,
        }
        with own_process(parts, request.param, log, **environ) as process:
            manager.wait_for("READY=1")
            process.send_signal(signal.SIGUSR2)
            wait_until(lambda: check_log.exists() and "\n" in check_log.read_text(), "the check has begun")
            yield Checking(process, Path("/proc") / check_log.read_text().split()[1], manager, log, check_log)


def test_it_shows_life_and_ends_when_asked_while_newer_code_hangs(checking: Checking) -> None:
    assert checking.manager.hears_something(PATIENCE)
    assert checking.check.exists()
    checking.process.terminate()
    assert checking.process.wait(PATIENCE) == 0
    assert not checking.check.exists()
    assert "keeps running the old code" not in checking.log.read_text()


def test_it_ends_when_asked_just_before_newer_code_turns_out_to_start(checking: Checking) -> None:
    checking.process.terminate()
    checking.go()
    assert checking.process.wait(PATIENCE) == 0
    assert "now runs the installed code" not in checking.log.read_text()


def test_code_that_is_only_checked_does_not_wait_for_the_database(tmp_path: Path) -> None:
    """The process that runs carries on, and the reason is in its log."""
    port = free_port()
    url = f"postgresql+psycopg://tms@127.0.0.1:{port}/tms"
    checked = subprocess.run(
        [sys.executable, "-m", "jobs.schedule"],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(tmp_path), "DATABASE_URL": url, "TMS_CHECK_START": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    (line,) = (line for line in checked.stderr.splitlines() if not line.startswith("{"))
    assert line.startswith("cannot start: the database cannot be used: ")
    assert (str(port) in line, checked.returncode) == (True, 1)
