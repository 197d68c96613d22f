"""The service on several hosts: each process by its own command, in the namespace and the data folder of its host."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from app.db.models import QueueEntry
from app.recipients.conditions import IS_SENDING
from tests.chaos.stage import START_WITHIN, Setup, Stage, hooked
from tests.cluster.engines import BALANCER, Engines
from tests.cluster.network import PEERS
from tests.support.launched import ROOT
from tests.support.next_release import forget_release, install_next_release
from tests.support.servers import PATIENCE, scratch_database, wait_until

WEB = ("gunicorn", "wsgi:application")
SENDER = ("jobs.worker", "sends")
OTHERS = (("jobs.worker", "webhooks", "maintenance"), ("jobs.worker", "automations"), ("jobs.schedule",))
BACKGROUND = (SENDER, SENDER, *OTHERS)
"""The processes of a sender host."""
API_HOSTS, SENDER_HOSTS = ("api1", "api2"), ("send1", "send2")
SECRET_KEY = "the secret key of all hosts of the cluster, long enough"


class ClusterStage(Stage):
    """An installation of the service on API hosts and sender hosts, on engines that run."""

    peers_host = PEERS

    def __init__(
        self,
        engines: Engines,
        folder: Path,
        database_url: str,
        given: Mapping[str, str],
        *,
        hosts: Sequence[str],
        seed: int,
    ) -> None:
        urls = {"DATABASE_URL": database_url, "REDIS_URL": engines.redis_url}
        settings = {
            **{"SECRET_KEY": SECRET_KEY, "HOST": "0.0.0.0", "PORT": "8000", "WEB_WORKERS": "1"},
            **{"PUBLIC_URL": f"https://{BALANCER}", "TRUSTED_PROXIES": "1", "METRICS_TOKEN": ""},
            **given,
        }
        super().__init__(folder, None, urls, settings, seed=seed, setup=Setup())
        self.engines = engines
        self.network = engines.network
        self.hosts: dict[str, Sequence[tuple[str, ...]]] = {
            host: [WEB] if host in API_HOSTS else BACKGROUND for host in hosts
        }
        self.workers = sum(len(programs) for host, programs in self.hosts.items() if host not in API_HOSTS)
        self.host_settings: dict[str, dict[str, str]] = {host: {} for host in hosts}
        """Host -> settings besides those of all."""
        self._code = folder / "current"
        self.install(ROOT)
        self._patch = pytest.MonkeyPatch()
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        self.struck = self.healed = 0.0
        """The moments between which the fault lasts."""

    @property
    def base(self) -> str:
        return f"https://{BALANCER}"

    def reach_engines_by_haproxy(self) -> None:
        """Each host gets a HAProxy of its own, which leads to the primary and to the master of Redis."""
        for host in self.hosts:
            self.engines.start_haproxy(host)
            self.host_settings[host] |= self.engines.balanced_urls(self._urls["DATABASE_URL"])

    # ------------------------------------------------------------------------------------------ the service

    def install(self, code: Path) -> None:
        """Makes the link by which all processes are started lead to this code."""
        fresh = self.folder / "fresh"
        fresh.symlink_to(code)
        fresh.rename(self._code)

    def know_next_release(self) -> None:
        """Lets the suite itself read the figures of a database that has been upgraded."""
        install_next_release(self.folder, self._patch)

    def start_service(self) -> None:
        """Makes the database and starts all hosts; returns when the API answers."""
        self.run_command("db", "upgrade")
        self.run_command("seed", self.service.environment["SEED"])
        for host in self.hosts:
            self.begin(host)
        wait_until(self.answers, "the API answers through HAProxy", START_WITHIN)

    def run_command(self, *arguments: str, host: str = "") -> str:
        """The output of a command of an operator, on a host or beside all of them."""
        command = [sys.executable, "-m", "flask", "--app", "wsgi", *arguments]
        if host:
            command = self.network.command(host, command)
        environment = {**self.service.environment, **(self._settings_of(host) if host else {})}
        ended = subprocess.run(command, cwd=self._code, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{arguments}: {ended.stdout[-1000:]}{ended.stderr[-1000:]}"
        return ended.stdout

    def begin(self, host: str) -> None:
        """Starts the processes of a host."""
        (self.folder / host).mkdir(exist_ok=True)
        with self.service.log.open("ab") as log:
            self._processes[host] = [
                subprocess.Popen(
                    self.network.command(host, [sys.executable, "-m", *program]),
                    cwd=self._code,
                    env={**self.service.environment, **self._settings_of(host)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
                for program in self.hosts[host]
            ]

    def _settings_of(self, host: str) -> dict[str, str]:
        return {"DATA_DIR": str(self.folder / host / "data"), "PWD": str(self._code), **self.host_settings[host]}

    def revive(self) -> list[str]:
        """The processes that have ended by themselves."""
        return [
            f"{program[-1]} on {host} with status {process.returncode}"
            for host, processes in self._processes.items()
            for program, process in zip(self.hosts[host], processes, strict=True)
            if process.poll() is not None
        ]

    def lose(self, host: str) -> None:
        """Kills the processes of a host that has been cut off: nothing can be told that anybody hears."""
        for pid in self.pids_of(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes.pop(host):
            process.wait(PATIENCE)

    def pids_of(self, host: str) -> list[int]:
        """The processes of a host."""
        mark = f"DATA_DIR={self.folder / host / 'data'}\0".encode()
        return [pid for pid in self.pids("") if mark in _environment_of(pid)]

    def claimed_by(self, host: str) -> int:
        """How many messages the senders of a host have claimed, and have no result of in the database."""
        is_of_host = QueueEntry.worker.startswith(f"{host}-", autoescape=True)
        with self.services.database.read() as session:
            return session.scalars(select(func.count()).select_from(QueueEntry).where(IS_SENDING, is_of_host)).one()

    def lines_of(self, pids: Collection[int]) -> list[dict[str, Any]]:
        """The lines that these processes have logged."""
        lines = (json.loads(line) for line in self.service.output().splitlines() if line.startswith("{"))
        return [line for line in lines if line.get("process") in pids]

    def clear(self) -> None:
        for host in list(self._processes):
            self.lose(host)
        self._patch.undo()
        forget_release()
        super().clear()


def _environment_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


@contextlib.contextmanager
def cluster_stage(
    engines: Engines, folder: Path, hosts: Sequence[str], hooks: Sequence[str], seed: int
) -> Iterator[ClusterStage]:
    """A stage that has not been started, on a new database."""
    folder.mkdir()
    engines.empty_redis()
    with contextlib.ExitStack() as kept:
        url = kept.enter_context(scratch_database(engines.server_url()))
        made = ClusterStage(engines, folder, url, hooked(folder, hooks), hosts=hosts, seed=seed)
        kept.callback(made.clear)
        yield made
