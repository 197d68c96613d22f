"""Signs of life for systemd and for health checks (docs/health.md#signs-of-life)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.infrastructure.liveness import SECONDS, STALE_SECONDS, SignsOfLife, create_locked
from jobs import healthcheck
from tests.support.servers import short_folder
from tests.support.service_manager import ServiceManager, service_manager

HOST = "machine"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.fixture
def manager(folder: Path) -> Iterator[ServiceManager]:
    with service_manager(folder) as made:
        yield made


def test_the_start_and_each_sign_are_told(manager: ServiceManager) -> None:
    signs = SignsOfLife(manager.environ)
    signs.starting("waiting for the database")
    assert manager.told() == ["STATUS=waiting for the database", "EXTEND_TIMEOUT_USEC=120000000"]
    signs.ready()
    assert manager.told() == ["READY=1", "STATUS=running"]
    signs.report()
    assert manager.told() == ["WATCHDOG=1"]


def test_signs_are_shown_four_times_in_the_time_of_the_watchdog_and_every_five_seconds_at_least(
    manager: ServiceManager,
) -> None:
    assert SignsOfLife({**manager.environ, "WATCHDOG_USEC": "8000000"}).seconds == 2
    assert SignsOfLife({**manager.environ, "WATCHDOG_USEC": "120000000"}).seconds == SECONDS
    assert SignsOfLife({}).seconds == SECONDS


def test_signs_that_are_not_due_cost_nothing(manager: ServiceManager) -> None:
    signs = SignsOfLife({**manager.environ, "WATCHDOG_USEC": "4000000000"})
    for _ in range(3):
        signs.report()
    assert manager.told() == ["WATCHDOG=1"]
    assert not manager.hears_something(0.01)


@pytest.mark.parametrize("changed", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": ""}, {"WATCHDOG_USEC": "soon"}])
def test_a_process_that_is_not_watched_tells_only_that_it_is_ready(
    manager: ServiceManager, changed: dict[str, str]
) -> None:
    """systemd watches the process that it has started, and not those that this one starts."""
    signs = SignsOfLife({**manager.environ, **changed})
    signs.report()
    signs.ready()
    assert manager.told() == ["READY=1", "STATUS=running"]


def test_a_name_without_a_file_is_understood() -> None:
    name = f"tms-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(f"\0{name}")
        SignsOfLife({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert line.recv(100) == b"READY=1\nSTATUS=running"


def test_a_service_manager_that_is_away_disturbs_nothing(folder: Path) -> None:
    signs = SignsOfLife({"NOTIFY_SOCKET": str(folder / "gone"), "WATCHDOG_USEC": "1000000"})
    signs.ready()
    signs.report()


def registered(folder: Path, age: float = 0.0, host: str = HOST, role: str = "") -> int:
    """The descriptor of the file of a process whose last sign is `age` seconds old."""
    path = folder / f"{host}-123-abc{role}.alive"
    descriptor = create_locked(path)
    moment = path.stat().st_mtime - age
    os.utime(path, (moment, moment))
    return descriptor


def test_a_process_with_an_old_sign_is_unhealthy_until_it_shows_another(folder: Path) -> None:
    descriptor = registered(folder, age=STALE_SECONDS + 30)
    assert healthcheck.silence(folder, HOST).startswith(f"{HOST}-123-abc has shown no sign of life for 15")
    signs = SignsOfLife({})
    signs.keep(descriptor)
    signs.report()
    assert healthcheck.silence(folder, HOST) == ""
    os.close(descriptor)


def test_a_host_without_a_process_is_unhealthy_whatever_other_hosts_run(folder: Path) -> None:
    """The containers of a machine share the data folder."""
    other = registered(folder, host="another")
    assert healthcheck.silence(folder, HOST) == f"no process of {HOST} runs"
    ended = registered(folder)
    os.close(ended)
    assert healthcheck.silence(folder, HOST) == f"no process of {HOST} runs"
    os.close(other)


def test_a_container_is_judged_by_the_role_of_its_own_process(folder: Path) -> None:
    """The containers of a pod share the data folder and the host name."""
    web = registered(folder, age=STALE_SECONDS + 30, role=".web")
    assert healthcheck.silence(folder, HOST, "background") == f"no background process of {HOST} runs"
    background = registered(folder, role=".background")
    assert healthcheck.silence(folder, HOST, "background") == ""
    assert healthcheck.silence(folder, HOST).startswith(f"{HOST}-123-abc.web has shown no sign of life for 15")
    os.close(web)
    os.close(background)
