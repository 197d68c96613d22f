"""Many clients at once, and the interaction with gunicorn's master process."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from app.settings import Settings
from jobs import healthcheck
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.service_manager import ServiceManager, service_manager
from tests.support.web import Web, forked_web_server, web_server

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /doors/what-came HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
CLIENTS = 16
ROUNDS = 12


def test_no_answer_is_lost_or_mixed_up_among_many_clients(web: Web) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        assert list(clients.map(lambda number: wrong_answers(web, number), range(CLIENTS))) == [0] * CLIENTS


def wrong_answers(web: Web, number: int) -> int:
    """Sends requests in parts, alone and pipelined; returns the number of responses that do not match their
    requests."""
    chance, wrong = random.Random(number), 0
    with web.connect() as line:
        for _ in range(ROUNDS):
            sizes = [chance.randrange(1, 3000) for _ in range(chance.randrange(1, 4))]
            sent = b"".join(POST % size + b"x" * size for size in sizes)
            cut = chance.randrange(len(sent))
            line.send(sent[:cut])
            line.send(sent[cut:])
            wrong += sum(line.answer().json()["length"] != size for size in sizes)
    return wrong


@pytest.fixture(scope="module")
def manager() -> Iterator[ServiceManager]:
    with short_folder() as folder, service_manager(folder) as made:
        yield made


@pytest.fixture(scope="module")
def brief(
    settings: Settings, manager: ServiceManager, doors_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """A server under a service manager whose processes answer five requests each."""
    environ = {"PYTHONPATH": doors_path, "GUNICORN_CMD_ARGS": "--max-requests 5", **manager.environ}
    with web_server(settings, tmp_path_factory.mktemp("brief"), **environ) as server:
        yield server


def test_the_master_process_is_ready_and_shows_life_again_and_again(
    brief: Web,
    manager: ServiceManager,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The signs of life of the other processes are tested in tests/jobs/test_signs_of_life.py."""
    assert manager.told()[0] == "READY=1"
    for _ in range(2):
        manager.wait_for("WATCHDOG=1")
    monkeypatch.setenv("DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("PORT", str(brief.port))
    assert (healthcheck.main(["--api"]), capsys.readouterr().out) == (0, "healthy\n")
    monkeypatch.setenv("PORT", "1")
    assert healthcheck.main(["--api"]) == 1
    assert capsys.readouterr().out.startswith("the API does not answer: ")


def test_a_process_that_has_answered_its_last_request_is_replaced(brief: Web) -> None:
    first = brief.workers()
    with brief.connect() as line:
        while line.ask(HEALTH).headers["connection"] == "keep-alive":
            pass
        assert line.is_ended()
    wait_until(lambda: bool(brief.workers()) and brief.workers() != first, "another process replaces it")
    with brief.connect() as line:
        assert line.ask(HEALTH).status == 200
    assert "this process ends after its last request" in brief.output()


def age_heartbeat(pid: int) -> None:
    """Makes the last heartbeat of a process older than any time limit. It is the time of a file without a name."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        if "wgunicorn-" in os.readlink(descriptor):
            os.utime(descriptor, (-2 * PATIENCE, -2 * PATIENCE))


def test_a_process_without_a_heartbeat_is_replaced(settings: Settings, doors_path: str, tmp_path: Path) -> None:
    with forked_web_server(
        settings, tmp_path, PYTHONPATH=doors_path, GUNICORN_CMD_ARGS=f"--timeout {PATIENCE:g}"
    ) as web:
        (first,) = web.workers()
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: psutil.Process(first).status() == psutil.STATUS_STOPPED, "it has stopped")
        age_heartbeat(first)
        wait_until(lambda: bool(web.workers()) and first not in web.workers(), "it is killed and replaced")
        with web.connect() as line:
            assert line.ask(HEALTH).status == 200
