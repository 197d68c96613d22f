"""The installed service, run outside of the checkout (docs/install.md)."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import requests

from app.distribution import VERSION
from tests.support.documented import documented
from tests.support.installed import PATIENT_ONLY, ROOT, InstalledPackage, run
from tests.support.launched import LaunchedService
from tests.support.servers import PATIENCE, redis_server, short_folder, wait_until


def paste(screen: str) -> requests.Response:
    """The answer to the first curl line of the screen."""
    line = re.findall(r"^  curl (.+?[^\\])$", screen, re.MULTILINE | re.DOTALL)[0]
    url, *parts = shlex.split(line.replace("\\\n", ""))
    headers = dict(part.split(": ", 1) for option, part in zip(parts[::2], parts[1::2], strict=True) if option == "-H")
    return requests.post(url, data=parts[-1].encode(), headers=headers, timeout=PATIENCE)


def test_the_command_says_its_version_wherever_it_is_typed(installed: InstalledPackage, elsewhere: Path) -> None:
    assert installed.tms(elsewhere, "--version") == f"tms {VERSION}\n"


def test_the_data_folder_does_not_depend_on_the_current_one(installed: InstalledPackage, elsewhere: Path) -> None:
    """The data folder of root is where the distribution keeps such data. Other users have theirs in their home."""
    ask = (installed.program("python"), "-P", "-c", "from app.settings import Settings; print(Settings().data_dir)")
    home = {"HOME": "/home/ann", "XDG_DATA_HOME": ""}
    expected = "/var/lib/tms" if os.getuid() == 0 else "/home/ann/.local/share/tms"
    assert run(ask, elsewhere, **home).stdout == f"{expected}\n"


def test_one_command_runs_the_whole_service_which_sends_a_first_mail(
    installed: InstalledPackage, elsewhere: Path
) -> None:
    """The screen names the commands as they are typed here."""
    service = installed.service(elsewhere, "run", SEED="")
    try:
        service.start()
        wait_until(lambda: "curl " in service.output(), "the screen is printed")
        response = paste(service.output())
        assert response.status_code == 202, response.text
        wait_until(lambda: service.mails() == 1, "the mail is there")
        assert requests.get(f"{service.base}/docs", timeout=PATIENCE).status_code == 200
        where = {"DATA_DIR": str(service.data)}
        assert "Acme" in installed.tms(elsewhere, "accounts", "list", **where)
        assert '"due": 0' in installed.tms(elsewhere, "status", "--json", **where)
        for process in (r"gunicorn", r"jobs\.worker sends", r"jobs\.schedule", r"app\.launcher\s*$"):
            assert service.pids(process), process
        service.stop()
    finally:
        service.clear()


@pytest.fixture
def migrated(installed: InstalledPackage, elsewhere: Path) -> dict[str, str]:
    """The settings of processes that are started one by one."""
    where = {"DATA_DIR": str(elsewhere / "data")}
    installed.tms(elsewhere, "db", "upgrade", **where)
    return where


def test_each_process_is_started_by_a_command_of_its_own(
    installed: InstalledPackage, elsewhere: Path, migrated: dict[str, str]
) -> None:
    """A process has the same command line as one that is started in the checkout. It ends by itself when it is asked
    to."""
    patterns = {
        ("web", "--", "--workers", "1"): r"gunicorn .*--workers 1 wsgi:application",
        ("worker", "sends"): r"-m jobs\.worker sends\s*$",
        ("scheduler",): r"-m jobs\.schedule\s*$",
        ("inbound",): r"-m jobs\.inbound\s*$",
    }
    started: dict[str, LaunchedService] = {}
    with redis_server() as redis:
        try:
            for arguments, pattern in patterns.items():
                service = installed.service(elsewhere, *arguments, REDIS_URL=redis, **migrated)
                service.begin()
                started[pattern] = service
            web = started[patterns["web", "--", "--workers", "1"]]
            wait_until(web.is_ready, "the API is ready")
            for pattern, service in started.items():
                wait_until(lambda process=service, line=pattern: process.process.pid in process.pids(line), pattern)
            wait_until(lambda: "worker started" in started[patterns["worker", "sends"]].output(), "the worker runs")
            wait_until(lambda: "scheduler started" in started[patterns["scheduler",]].output(), "the scheduler runs")
            wait_until(lambda: "nothing to do" in started[patterns["inbound",]].output(), "the listener runs")
            for service in started.values():
                service.stop()
                assert service.process.returncode == 0
        finally:
            for service in started.values():
                service.clear()


def test_an_old_schema_names_the_command_as_it_is_typed_here(installed: InstalledPackage) -> None:
    with short_folder() as folder:
        output = installed.service(folder, "scheduler").refused()
    assert "run `tms db upgrade`" in output


def test_the_two_commands_of_the_readme_install_and_run_it(elsewhere: Path, tmp_path: Path) -> None:
    """uv installs the service as a tool: it builds the wheel, and takes the newest versions of the dependencies."""
    (programs := tmp_path / "bin").mkdir()
    (programs / "uv").symlink_to(ROOT / ".venv" / "bin" / "uv")
    _run_in_place, install_and_run = documented("README.md#two-commands")
    settings = {"UV_TOOL_BIN_DIR": str(programs), "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_PYTHON": sys.executable}
    path = f"{programs}:{os.environ['PATH']}"
    service = LaunchedService(
        elsewhere, ["bash", "-ec", install_and_run], PATH=path, PYTHONPATH=PATIENT_ONLY, **settings
    )
    try:
        service.start()
        service.send(["ann@example.com"])
        wait_until(lambda: service.mails() == 1, "the mail is there")
        assert (programs / "tms").resolve().is_relative_to(tmp_path / "tools")
        service.stop()
    finally:
        service.clear()
