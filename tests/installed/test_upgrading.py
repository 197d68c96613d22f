"""Another version is installed over the running one, as docs/upgrade.md has it: no request is refused."""

from __future__ import annotations

import email
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from app.distribution import VERSION
from tests.rolling.launcher import NEXT, Reload, check_reload
from tests.rolling.load import FEW, Load
from tests.support.documented import documented
from tests.support.installed import InstalledPackage, build, run
from tests.support.launched import LaunchedService
from tests.support.next_release import CONTRACTED, EXPANDED, write_next_migrations
from tests.support.servers import PATIENCE, free_port, redis_server, wait_until

PROCESSES: tuple[tuple[str, ...], ...] = (
    ("web",),
    ("worker", "sends"),
    ("worker", "webhooks", "maintenance"),
    ("worker", "automations"),
    ("scheduler",),
)
SAYS_SO = (
    '\nimport os as _os, sys as _sys\nprint("process", _os.getpid(), "has the code of", VERSION, file=_sys.stderr)\n'
)


@pytest.fixture(scope="module")
def next_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This code under another version, which each process prints at its start, with a migration of each phase."""
    folder = tmp_path_factory.mktemp("next")
    with tarfile.open(build(folder, "sdist")) as archive:
        archive.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    (source / "PKG-INFO").unlink()  # which has the version, too
    distribution = source / "app" / "distribution.py"
    text = distribution.read_text("utf-8").replace(f'VERSION = "{VERSION}"', f'VERSION = "{NEXT}"')
    distribution.write_text(text + SAYS_SO, "utf-8")
    write_next_migrations(source / "app" / "db" / "migrations" / "versions")
    (dist := folder / "dist").mkdir()
    built = build(dist, "wheel", source)
    assert f"-{NEXT}-" in built.name
    return built


@pytest.fixture
def processes(
    installed: InstalledPackage, elsewhere: Path, wheel: Path
) -> Iterator[dict[tuple[str, ...], LaunchedService]]:
    """Each started by a command of its own; the API is ready. Afterwards the environment has this version again."""
    with ExitStack() as stack:
        settings = {"REDIS_URL": stack.enter_context(redis_server()), "PORT": str(free_port()), "RATE_LIMIT": "off"}
        started = {
            arguments: installed.service(elsewhere, *arguments, WEB_WORKERS="1", **settings) for arguments in PROCESSES
        }
        data = started["web",].data
        installed.tms(elsewhere, "db", "upgrade", DATA_DIR=str(data))
        installed.tms(elsewhere, "seed", str(elsewhere / "seed.yaml"), DATA_DIR=str(data))
        stack.callback(installed.install, "--no-deps", "--force-reinstall", wheel)
        for service in started.values():
            stack.callback(service.clear)
            service.begin()
        wait_until(started["web",].is_ready, "the API is ready")
        wait_until(
            lambda: len([*(data / "processes").glob("*.background.alive")]) == len(PROCESSES) - 1,
            "the others have, too",
        )
        yield started


def test_an_upgrade_refuses_no_request_and_every_process_has_the_new_code(
    installed: InstalledPackage, elsewhere: Path, processes: dict[tuple[str, ...], LaunchedService], next_wheel: Path
) -> None:
    web = processes["web",]
    (customers,) = web.get("/v1/lists", name="Customers")["_embedded"]["lists"]
    load = Load(web.port, customers["id"], FEW)
    load.start()
    wait_until(lambda: web.mails() > 0, "mails are sent")
    assert version(web) == VERSION
    installed.install("--no-deps", next_wheel)
    assert installed.tms(elsewhere, "--version") == f"tms {NEXT}\n"
    said = typed(installed, elsewhere, web.data)
    assert version(web) == NEXT
    load.stop()
    assert load.refused == []
    assert said.splitlines()[:2] == [
        f"the database is at revision {EXPANDED}",
        f"not applied yet: {CONTRACTED}. When all processes run this release, run `tms db upgrade --contract`",
    ]
    assert said.splitlines()[-1] == f"the database is at revision {CONTRACTED}"
    for service in processes.values():
        assert service.process.poll() is None
        assert f"process {service.process.pid} has the code of {NEXT}" in service.output()
        assert "is not a setting of this service" not in service.output()
    wait_until(lambda: web.mails() >= len(load.accepted), "everything accepted is sent")
    assert received(web).keys() == set(load.accepted)
    assert [address for address, mails in received(web).items() if mails > 1] == []
    for service in processes.values():
        service.stop()
        assert service.process.returncode == 0


def test_tms_run_reloads_the_new_code_and_signs_with_the_rotated_key(
    installed: InstalledPackage, elsewhere: Path, wheel: Path, next_wheel: Path
) -> None:
    service = installed.service(elsewhere, "run", RATE_LIMIT="off", WEB_WORKERS="2")
    try:
        service.start()
        service.send(["ann@example.com", "bob@example.com"])

        def install() -> None:
            installed.install("--no-deps", next_wheel)
            installed.tms(elsewhere, "db", "upgrade", "--expand", DATA_DIR=str(service.data))

        check_reload(Reload(service, [str(installed.program("tms"))], install))
        assert "Bad file descriptor" not in service.output()
    finally:
        service.clear()
        installed.install("--no-deps", "--force-reinstall", wheel)


def typed(installed: InstalledPackage, folder: Path, data: Path) -> str:
    """The output of the commands of the documentation."""
    (commands,) = documented("docs/upgrade.md#the-commands")
    path = f"{installed.program('tms').parent}:{os.environ['PATH']}"
    return run(["bash", "-ec", commands], folder, PATH=path, DATA_DIR=str(data)).stdout


def version(web: LaunchedService) -> str:
    """The version of the API process that answers."""
    text = requests.get(f"{web.base}/metrics", timeout=PATIENCE).text
    (version_text,) = re.findall(r'^tms_build_info{.*version="([^"]+)".*} 1', text, re.MULTILINE)
    return str(version_text)


def received(web: LaunchedService) -> Counter[str]:
    """How many mails each address got."""
    mails = (email.message_from_bytes(path.read_bytes()) for path in (web.data / "mail").glob("*.eml"))
    return Counter(mail["To"] for mail in mails)
