"""A reload of the service that `make run` has started, with its key rotated before, under load
(docs/upgrade.md): another version is installed over the running one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from app.distribution import VERSION
from tests.rolling.load import FEW, MANY, Load
from tests.rolling.upgrade import MOMENT, Result, seen
from tests.support.installed import PATIENT_ONLY
from tests.support.launched import ROOT, LaunchedService
from tests.support.next_release import copy_code
from tests.support.servers import free_port, wait_until

NEXT = "99.0"
"""The version that is installed over this one."""
WORKERS = 2
ANSWERS = 20
"""Requests, each on a connection of its own, of which none may be answered by the code from before."""


def launched(folder: Path, database_url: str) -> LaunchedService:
    """The service by `make run` in a copy of this code, not yet started."""
    code = copy_code(folder)
    service = LaunchedService(
        folder,
        DATABASE_URL=database_url or f"sqlite:///{folder}/tms.sqlite3",
        EMAIL_TRANSPORT_URL=f"smtp://127.0.0.1:{free_port()}",
        PYTHONPATH=PATIENT_ONLY,
        RATE_LIMIT="off",
        WEB_WORKERS=str(WORKERS),
    )
    service.working_folder = code
    return service


def reload(service: LaunchedService, folder: Path, *, short: bool) -> Result:
    """All steps; ends the service."""
    relay_port = service.environment["EMAIL_TRANSPORT_URL"].rpartition(":")[2]
    relay = subprocess.Popen([sys.executable, "-m", "tests.chaos.relay", relay_port, str(folder), "1"], cwd=ROOT)
    try:
        service.start()
        list_id = service.get("/v1/lists")["_embedded"]["lists"][0]["id"]
        load = Load(service.port, list_id, FEW if short else MANY)
        load.start()
        time.sleep(MOMENT)
        check_reload(Reload(service, [".venv/bin/python", "-m", "flask", "--app", "wsgi"], lambda: _install(service)))
        time.sleep(MOMENT)
        load.stop()
        return seen(folder, load)
    finally:
        service.clear()
        relay.terminate()
        relay.wait()


def _install(service: LaunchedService) -> None:
    distribution = service.working_folder / "app" / "distribution.py"
    distribution.write_text(distribution.read_text().replace(f'VERSION = "{VERSION}"', f'VERSION = "{NEXT}"'))


@dataclass(frozen=True, slots=True)
class Reload:
    """A service that is to be reloaded."""

    service: LaunchedService
    program: Sequence[str]
    """The command line of the service, in the folder in which the service was started."""
    install: Callable[[], object]
    """Installs `NEXT`."""

    def typed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command as an operator types it."""
        folder, environment = self.service.working_folder, self.service.environment
        command = [*self.program, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def keys(self) -> dict[str, int]:
        """The processes that sign with each key."""
        rows = orjson.loads(self.typed("secrets", "status", "--json").stdout)
        return {row["key"]: row["signing_processes"] for row in rows}


def check_reload(reload: Reload) -> None:
    """Rotates the key, installs the next version and reloads: the same processes answer with the new code, and sign
    with the new key."""
    service = reload.service
    (master, *workers), page = service.pids("gunicorn"), _page(service)
    (old,) = reload.keys()
    # It is refused while a process has only just started, and nothing is changed then.
    wait_until(lambda: reload.typed("secrets", "rotate").returncode == 0, "the key is rotated")
    reload.install()
    reloaded = reload.typed("reload")
    assert reloaded.returncode == 0, reloaded.stdout + reloaded.stderr
    assert {service.get("/docs/openapi.json")["info"]["version"] for _ in range(ANSWERS)} == {NEXT}
    assert master in service.pids("gunicorn")
    assert "Bad file descriptor" not in service.output()  # the web process waits for no signal of the launcher again
    wait_until(lambda: not {*workers} & set(service.pids("gunicorn")), "the workers from before have ended")
    wait_until(lambda: not reload.keys()[old], "no process signs with the key from before")
    signed = {_cursor(_page(service, page)) for _ in range(ANSWERS)}
    assert len(signed) == 1
    assert signed != {_cursor(page)}
    assert service.get(urlsplit(page["_links"]["next"]["href"]).path, **_query(page))["_embedded"]["contacts"]


def _page(service: LaunchedService, like: dict[str, Any] | None = None) -> dict[str, Any]:
    """The first of two contacts, with a signed link to the second: always the same two."""
    (first_list,) = service.get("/v1/lists")["_embedded"]["lists"]
    path = f"/v1/lists/{first_list['id']}/contacts"
    if like:
        return service.get(path, **{"id:in": _query(like)["id:in"], "limit": 1})
    wait_until(lambda: len(service.get(path, limit=2)["_embedded"]["contacts"]) == 2, "there are two contacts")
    ids = [str(contact["id"]) for contact in service.get(path, limit=2)["_embedded"]["contacts"]]
    return service.get(path, **{"id:in": ",".join(ids), "limit": 1})


def _query(page: dict[str, Any]) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page["_links"]["next"]["href"]).query))


def _cursor(page: dict[str, Any]) -> str:
    return _query(page)["cursor"]
