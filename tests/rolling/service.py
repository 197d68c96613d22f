"""The service as a process manager runs it: each process by its own command, in a folder that leads to the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import requests
import yaml

from app.db.migrate import COMMIT_OF_LAST_STEP
from app.infrastructure import liveness
from app.settings import own_redis_url
from tests.support.launched import ROOT, SEED, SURROUNDINGS, TOKEN
from tests.support.servers import PATIENCE, free_port, wait_until

BACKGROUND = {
    "sends-1": ("jobs.worker", "sends"),
    "sends-2": ("jobs.worker", "sends"),
    "webhooks": ("jobs.worker", "webhooks", "maintenance"),
    "automations": ("jobs.worker", "automations"),
    "schedule": ("jobs.schedule",),
}


def unpack_released(folder: Path) -> bool:
    """Writes the last code before the baseline into the folder; False if this checkout does not have its commit."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT_OF_LAST_STEP}^{{commit}}"]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        return False
    folder.mkdir()
    with subprocess.Popen(["git", "-C", str(ROOT), "archive", COMMIT_OF_LAST_STEP], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
    return True


class Service:
    """The processes, the folder `current` with their code, and the relay."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self.folder = folder
        self.port, self._relay_port = free_port(), free_port()
        self._current = folder / "current"
        self._data = folder / "data"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        clean = {name: value for name, value in os.environ.items() if name not in {*SURROUNDINGS, "PYTHONPATH"}}
        self._environment = {
            **clean,
            "PWD": str(self._current),
            "DATA_DIR": str(self._data),
            "DATABASE_URL": database_url or f"sqlite:///{folder}/tms.sqlite3",
            "REDIS_URL": redis_url or own_redis_url(self._data),
            "PORT": str(self.port),
            "WEB_WORKERS": "2",
            "EMAIL_TRANSPORT_URL": f"smtp://127.0.0.1:{self._relay_port}",
            "RATE_LIMIT": "off",
            "LOG_FORMAT": "json",
        }

    # ------------------------------------------------------------------------------------------ code

    def install(self, code: Path) -> None:
        """Makes `current` lead to this code."""
        fresh = self.folder / "fresh"
        fresh.symlink_to(code)
        fresh.rename(self._current)

    def command(self, *arguments: str) -> str:
        """Runs a command of the code that is installed now; returns its output."""
        return self._run(sys.executable, "-m", "flask", "--app", "wsgi", *arguments)

    def typed(self, commands: str) -> str:
        """Runs such commands as an operator types them; returns their output."""
        (program := self.folder / "tms").write_text(f'#!/bin/sh\nexec {sys.executable} -m flask --app wsgi "$@"\n')
        program.chmod(0o700)
        return self._run("bash", "-ec", f"PATH={self.folder}:$PATH\n{commands}")

    def _run(self, *command: str) -> str:
        ended = subprocess.run(
            command, cwd=self._current, env=self._environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr + self.log()[-3000:]
        return ended.stdout

    def prepare(self) -> None:
        """Makes the database of the code that is installed now, with an account."""
        seed = self.folder / "seed.yaml"
        seed.write_text(yaml.safe_dump(SEED))
        self.command("db", "upgrade")
        self.command("seed", str(seed))

    # ------------------------------------------------------------------------------------------ processes

    def start(self) -> None:
        """Starts everything; returns when requests are answered and an upgrade finds all processes."""
        relay = [sys.executable, "-m", "tests.chaos.relay", str(self._relay_port), str(self.folder), "1"]
        self._processes["relay"] = subprocess.Popen(relay, cwd=ROOT)
        for name in BACKGROUND:
            self._begin(name)
        self._begin("web")
        wait_until(self._answers, "the API answers")
        wait_until(self._has_registered, "all processes are registered")

    def ids(self) -> dict[str, int]:
        """The process ids of the processes that run."""
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def stop(self) -> None:
        """Ends everything."""
        for name in reversed(list(self._processes)):
            self._end(name)

    def _begin(self, name: str) -> None:
        module = ("gunicorn", "wsgi:application") if name == "web" else BACKGROUND[name]
        with (self.folder / "log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", *module],
                cwd=self._current,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self, name: str) -> None:
        process = self._processes[name]
        process.terminate()
        process.wait(PATIENCE)

    # ------------------------------------------------------------------------------------------ from outside

    def _has_registered(self) -> bool:
        return sum(bool(process.role) for process in liveness.processes(self._data)) == len(BACKGROUND) + 1

    def _answers(self) -> bool:
        try:
            return self._get("/readyz").status_code == 200
        except requests.RequestException:
            return False

    def list_id(self) -> int:
        """The id of the one list."""
        return int(self._get("/v1/lists", name="Customers").json()["_embedded"]["lists"][0]["id"])

    def _get(self, path: str, **params: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return requests.get(f"http://127.0.0.1:{self.port}{path}", params=params, headers=headers, timeout=PATIENCE)

    def log(self) -> str:
        """The lines of all processes."""
        return (self.folder / "log").read_text("utf-8", "replace")
