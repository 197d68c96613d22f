"""SIGUSR2 replaces the code of the API in place, and no client notices (docs/upgrade.md)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.db.phases import newest_revision
from app.settings import Settings
from tests.api.test_health import set_revision
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, wait_until
from tests.support.web import Web, web_server

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
FIRST_HALF, SECOND_HALF = HEALTH[:20], HEALTH[20:]


@pytest.fixture(scope="module")
def own_settings(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a database for the tests of this module alone."""
    folder = tmp_path_factory.mktemp("data")
    return test_settings(folder, DATABASE_URL=migrated_file(folder / "tms.sqlite3"), REDIS_URL=redis_url)


@pytest.fixture(scope="module")
def replaced(own_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with two processes, whose code each test replaces."""
    patience = {"HEADER_SECONDS": "180", "KEEPALIVE_SECONDS": "180"}
    patience["GUNICORN_CMD_ARGS"] = f"--graceful-timeout={PATIENCE / 2:g}"
    with web_server(own_settings, tmp_path_factory.mktemp("web"), WEB_WORKERS="2", **patience) as web:
        yield web


def replace(web: Web) -> None:
    """Sends the signal; returns when the processes of the code from before accept no more."""
    retired = retirements(web)
    os.kill(web.pid, signal.SIGUSR2)
    wait_until(lambda: retirements(web) == retired + 2, "both have retired")


def retirements(web: Web) -> int:
    """How many processes have begun to retire."""
    return web.output().count("this process ends after its last connection")


def test_a_client_that_keeps_its_connection_is_answered_by_the_code_from_before(replaced: Web) -> None:
    """The answer tells the client to open another connection, which the new code accepts."""
    before = replaced.workers()
    with replaced.connect() as kept, replaced.connect() as slow:
        assert kept.ask(HEALTH).headers["connection"] == "keep-alive"
        slow.send(FIRST_HALF)
        replace(replaced)
        slow.send(SECOND_HALF)
        for line in (kept, slow):
            answer = line.answer() if line is slow else line.ask(HEALTH)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert line.is_ended()
    wait_until(lambda: not set(before) & set(replaced.workers()), "they have ended")
    with replaced.connect() as line:
        assert line.ask(HEALTH).headers["connection"] == "keep-alive"
    assert "SIGKILL" not in replaced.output()


def test_reload_waits_for_the_processes_of_the_code_from_before(replaced: Web, own_settings: Settings) -> None:
    """Once they have ended, nothing needs what a contracting migration takes away."""
    before, retired = replaced.workers(), retirements(replaced)
    with app_with(own_settings) as app, ThreadPoolExecutor(1) as typing:
        with replaced.connect() as kept:
            kept.ask(HEALTH)
            reload = typing.submit(app.test_cli_runner().invoke, args=["reload"])
            wait_until(lambda: retirements(replaced) == retired + 2, "both have retired")
            assert any(map(is_running, before))
            assert not reload.done()
        assert reload.result().stdout == f"process {replaced.pid} (web) runs the installed code\n"
    assert not any(map(is_running, before))


def is_running(pid: int) -> bool:
    """Whether it has not ended; its parent may not have noticed yet."""
    return Path(f"/proc/{pid}/exe").exists()


def test_code_that_does_not_start_replaces_nothing(replaced: Web, own_settings: Settings) -> None:
    wait_until(lambda: all(map(is_running, replaced.workers())), "the server has noticed which processes have ended")
    before, newest = replaced.workers(), newest_revision()
    set_revision(own_settings.database_url, "0003")
    os.kill(replaced.pid, signal.SIGUSR2)
    wait_until(lambda: "this process keeps running the old code" in replaced.output(), "it has tried to start")
    set_revision(own_settings.database_url, newest)
    assert "cannot start: the database is at revision 0003" in replaced.output()
    assert replaced.workers() == before
    with replaced.connect() as line:
        assert line.ask(HEALTH).status == 200


def test_a_stop_ends_those_that_retire_too(replaced: Web) -> None:
    """The last one of these tests, since it ends the server."""
    with replaced.connect() as kept:
        kept.ask(HEALTH)
        everybody = set(replaced.workers())
        replace(replaced)
        everybody |= set(replaced.workers())
        os.kill(replaced.pid, signal.SIGTERM)
        wait_until(lambda: not any(map(is_running, everybody)), "all have ended")
    assert "SIGKILL" not in replaced.output()
