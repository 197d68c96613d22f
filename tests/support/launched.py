"""The whole service as a user starts it: a process group with its own data folder and port, watched from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import requests
import yaml

from app.settings import Settings, variable_of
from tests.support.servers import PATIENCE, free_port, wait_until

ROOT = Path(__file__).parents[2]
PATIENT = {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parent / "patient"), str(ROOT)))}
"""An environment in which the launcher waits for its processes as long as a slow machine needs."""
SURROUNDINGS = {
    *(variable_of(field) for field in fields(Settings)),
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "RECEIVER_PORT",
    "PROMETHEUS_MULTIPROC_DIR",
} - {"EMBEDDED_REDIS"}
"""Variables that must not reach the service; EMBEDDED_REDIS stays, since it applies to all tests."""
TOKEN = "tms_the-only-key-of-the-end-to-end-tests-0123456789"

SEED: dict[str, Any] = {
    "accounts": [
        {
            "name": "Acme",
            "owner_email": "owner@acme.example",
            "owner_confirmed": True,
            "keys": [{"name": "backend", "access_level": "standard", "token": TOKEN}],
            "domains": ["acme.example"],
            "lists": [{"name": "Customers", "fields": [{"name": "Email", "type": "Email"}]}],
        }
    ]
}


class LaunchedService:
    """One service. Keyword arguments are settings; without `SEED` it gets a small one, with an empty one the demo."""

    def __init__(self, folder: Path, command: Sequence[str] = ("make", "run"), **settings: str) -> None:
        self.folder = folder
        self.working_folder = ROOT
        self.command = command
        self.data = folder / "data"
        self.log = folder / "log"
        self.mark = uuid.uuid4().hex
        seed = folder / "seed.yaml"
        seed.write_text(yaml.safe_dump(SEED))
        clean = {name: value for name, value in os.environ.items() if name not in SURROUNDINGS}
        defaults = {
            "DATA_DIR": str(self.data),
            "PORT": str(free_port()),
            "SEED": str(seed),
            "LOG_FORMAT": "json",
            "E2E_MARK": self.mark,
        }
        self.environment = {**clean, **defaults, **settings}
        self.port = int(self.environment["PORT"])
        self.base = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the command."""
        assert self._process is not None
        return self._process

    def begin(self) -> None:
        """Starts the service without waiting."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.working_folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Watches this process from now on, which was started in the same way."""
        self._process = process

    def start(self) -> None:
        """Starts the service and waits until it is ready."""
        self.begin()
        wait_until(lambda: self.process.poll() is not None or self.is_ready(), "the service is ready")
        assert self.process.poll() is None, self.output()

    def is_ready(self) -> bool:
        """Whether /readyz answers 200."""
        try:
            return requests.get(f"{self.base}/readyz", timeout=PATIENCE).status_code == 200
        except requests.RequestException:
            return False

    def refused(self) -> str:
        """Starts the service, expects it to end by itself with an error, and returns its output."""
        self.begin()
        assert self.process.wait(PATIENCE) != 0
        wait_until(lambda: not self.pids(), "nothing is left")
        return self.output()

    def output(self) -> str:
        """The complete output."""
        return self.log.read_text("utf-8", "replace")

    def pids(self, command: str = "") -> list[int]:
        """The ids of its processes whose command line matches the pattern, the oldest first: a master precedes its
        workers, whose ids may be lower once the system has used its highest one."""
        numbers = map(int, filter(str.isdigit, os.listdir("/proc")))
        return sorted((number for number in numbers if self._is_ours(number, command)), key=_start)

    def _is_ours(self, number: int, command: str) -> bool:
        try:
            marked = self.mark.encode() in Path(f"/proc/{number}/environ").read_bytes()
            line = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            return False
        # Redis overwrites its environment with its title, which contains its socket.
        return (marked or str(self.data) in line) and bool(line) and re.search(command, line) is not None

    def processor_seconds(self) -> float:
        """The processor time of its processes since they started, including those that have ended."""
        ticks = 0
        for number in self.pids():
            with suppress(FileNotFoundError, ProcessLookupError):
                ticks += sum(map(int, _stat(number)[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def only_pid(self, command: str) -> int:
        """The one process with such a command line."""
        wait_until(lambda: len(self.pids(command)) == 1, f"there is one process of {command}")
        return self.pids(command)[0]

    def stop(self, *numbers: signal.Signals) -> None:
        """Sends signals to the whole process group, as a terminal does. Waits until all processes have ended.

        All must have ended by themselves: the launcher kills processes that do not end in time, and logs it.
        """
        for number in numbers or (signal.SIGTERM,):
            os.killpg(self.process.pid, number)
        self.process.wait(PATIENCE)
        wait_until(lambda: not self.pids(), "all processes are gone")
        assert "killing it" not in self.output()

    def clear(self) -> None:
        """Kills everything that is left, however the test has ended."""
        if self._process is not None:
            for number in self.pids():
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._process.wait(PATIENCE)

    # ------------------------------------------------------------------------------------------ using it

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """A successful GET with the key of the seed."""
        response = requests.get(self.base + path, params=params, headers=self._headers(), timeout=PATIENCE)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def send(self, addresses: list[str], **changes: Any) -> list[str]:
        """An accepted send to the addresses; its uuids."""
        (customers,) = self.get("/v1/lists", name="Customers")["_embedded"]["lists"]
        body = {
            "type": "email",
            "list_id": customers["id"],
            "group_name": "Tests",
            "subject": "A subject",
            "from_name": "Acme",
            "from_address": "hello@acme.example",
            "body_text": "A body",
            "recipients": [{"email": address} for address in addresses],
            **changes,
        }
        response = requests.post(
            f"{self.base}/v1/transactional-sends", json=body, headers=self._headers(), timeout=PATIENCE
        )
        assert response.status_code == 202, response.text
        return [recipient["uuid"] for recipient in response.json()["_embedded"]["recipients"]]

    def group(self, name: str = "Tests") -> dict[str, Any]:
        """The report of the group of `send`."""
        (group,) = self.get("/v1/transactional-groups", name=name)["_embedded"]["transactional-groups"]
        return dict(group)

    def mails(self) -> int:
        """Files in the outbox."""
        return len(list((self.data / "mail").glob("*.eml")))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}


def _stat(number: int) -> list[str]:
    """What the system says of a process, from its state on. Raises `OSError` once it has ended."""
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()


def _start(number: int) -> int:
    """When the process began, in ticks; 0 once it has ended."""
    try:
        return int(_stat(number)[19])
    except OSError:
        return 0
