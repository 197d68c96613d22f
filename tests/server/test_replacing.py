"""SIGUSR2 replaces the code of the API in place, and no client notices (docs/operations.md#upgrading)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app import create_app
from app.db.migrate import upgrade
from app.http.context import EXTENSION
from app.settings import Settings
from tests.api.test_health import set_revision
from tests.conftest import test_settings
from tests.support.servers import wait_until
from tests.support.web import Web, web_server

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
FIRST_HALF, SECOND_HALF = HEALTH[:20], HEALTH[20:]


@pytest.fixture
def own_settings(redis_url: str, tmp_path: Path) -> Settings:
    """Those of a database of the test's own."""
    made = test_settings(tmp_path, DATABASE_URL=f"sqlite:///{tmp_path}/tms.sqlite3", REDIS_URL=redis_url)
    upgrade(made.database_url)
    return made


@pytest.fixture
def server(own_settings: Settings, tmp_path: Path) -> Iterator[Web]:
    """A server with two processes."""
    with web_server(own_settings, tmp_path, WEB_WORKERS="2", HEADER_SECONDS="180", KEEPALIVE_SECONDS="180") as web:
        yield web


def replace(web: Web) -> None:
    """Sends the signal; returns when the processes of the code from before accept no more."""
    os.kill(web.pid, signal.SIGUSR2)
    wait_until(lambda: web.output().count("this process ends with its last one") == 2, "both have retired")


def test_a_client_that_keeps_its_connection_is_answered_by_the_code_from_before(server: Web) -> None:
    """And is told to open another one, which the new code accepts."""
    before = server.workers()
    with server.connect() as kept, server.connect() as slow:
        assert kept.ask(HEALTH).headers["connection"] == "keep-alive"
        slow.send(FIRST_HALF)
        replace(server)
        slow.send(SECOND_HALF)
        for line in (kept, slow):
            answer = line.answer() if line is slow else line.ask(HEALTH)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert line.is_ended()
    wait_until(lambda: not set(before) & set(server.workers()), "they have ended")
    with server.connect() as line:
        assert line.ask(HEALTH).headers["connection"] == "keep-alive"
    assert "SIGKILL" not in server.output()


def test_reload_waits_for_the_processes_of_the_code_from_before(server: Web, own_settings: Settings) -> None:
    """Only then nothing needs what a contracting migration takes away."""
    before, app = server.workers(), create_app(own_settings)
    with ThreadPoolExecutor(1) as typing:
        with server.connect() as kept:
            kept.ask(HEALTH)
            reload = typing.submit(app.test_cli_runner().invoke, args=["reload"])
            wait_until(lambda: server.output().count("this process ends with its last one") == 2, "both have retired")
            assert any(map(is_running, before))
            assert not reload.done()
        assert reload.result().stdout == f"process {server.pid} (web) runs the installed code\n"
    assert not any(map(is_running, before))
    app.extensions[EXTENSION].database.close()


def is_running(pid: int) -> bool:
    """Whether it has not ended; its parent may not have noticed yet."""
    return Path(f"/proc/{pid}/exe").exists()


def test_code_that_does_not_start_replaces_nothing(server: Web, own_settings: Settings) -> None:
    before = server.workers()
    set_revision(own_settings.database_url, "0003")
    os.kill(server.pid, signal.SIGUSR2)
    wait_until(lambda: "this process goes on as it is" in server.output(), "it has tried to start")
    assert "cannot start: the database is at revision 0003" in server.output()
    assert server.workers() == before
    with server.connect() as line:
        assert line.ask(HEALTH).status == 200


def test_a_stop_ends_those_that_retire_too(server: Web) -> None:
    with server.connect() as kept:
        kept.ask(HEALTH)
        everybody = set(server.workers())
        replace(server)
        everybody |= set(server.workers())
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: not any(map(is_running, everybody)), "all have ended")
    assert "SIGKILL" not in server.output()
