"""The server with few resources, at its start and at its end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from app.settings import Settings
from tests.server.test_slow_clients import unread
from tests.support.cases import each
from tests.support.certificates import Authority
from tests.support.forked import ForkedProcess, run_module
from tests.support.servers import PATIENCE, free_port, wait_until
from tests.support.web import GUNICORN, Line, Web, forked_web_server

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def narrow(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server that may open 300 files, none larger than 2 MB."""
    folder = tmp_path_factory.mktemp("narrow")
    limits = {resource.RLIMIT_NOFILE: 300, resource.RLIMIT_FSIZE: 2_000_000}
    with forked_web_server(settings, folder, limits, PYTHONPATH=doors_path) as server:
        yield server


def test_more_clients_than_allowed_files_lock_nobody_out(narrow: Web) -> None:
    with contextlib.ExitStack() as kept:
        idle = [kept.enter_context(narrow.connect()) for _ in range(200)]
        with narrow.connect() as line:
            assert line.ask(HEALTH).status == 200
        assert idle[0].is_ended()
    expected = "this process can hold only 50 connections, not WEB_CONNECTIONS=4000, because of the limit on open files"
    assert [line["message"] for line in narrow.lines("app.http.server.request")] == [expected]


@each("size", [5_000_000, 2_000_100])
def test_a_body_without_room_on_the_disk_is_deferred_and_the_next_one_accepted(narrow: Web, size: int) -> None:
    """The end of the second one is written only when the body is complete."""
    url = f"{narrow.base}/doors/what-came"
    refused = requests.post(url, data=b"x" * size, timeout=PATIENCE)
    assert (refused.status_code, refused.json()["type"]) == (503, "service_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert requests.post(url, data=b"x" * 1_000_000, timeout=PATIENCE).json()["length"] == 1_000_000


def fill_disk(line: Line) -> None:
    """Begins a body whose last 100 bytes no longer fit into its file, which is noticed when it is written next."""
    line.send(b"POST /doors/what-came HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n")
    for size in (1_999_900, 200):
        line.send(b"x" * size)
        wait_until(lambda: not unread(line), "the server has read it")


def test_a_body_of_which_a_part_was_not_written_is_deferred(narrow: Web) -> None:
    with narrow.connect() as line:
        fill_disk(line)
        line.send(b"x" * 5_000)
        assert line.answer().status == 503


def test_a_client_whose_body_has_no_room_is_closed_alone(narrow: Web) -> None:
    before = narrow.workers()
    with contextlib.ExitStack() as kept:
        line = kept.enter_context(narrow.connect())
        fill_disk(line)
        for _ in range(50):
            kept.enter_context(narrow.connect())
        assert line.is_ended()
        with narrow.connect() as other:
            assert other.ask(HEALTH).status == 200
    assert narrow.workers() == before


def test_a_stop_answers_requests_in_progress_and_does_not_wait_for_slow_clients(
    settings: Settings, doors_path: str, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    patience = {"HEADER_SECONDS": f"{PATIENCE:g}", "GUNICORN_CMD_ARGS": f"--graceful-timeout={PATIENCE / 2:g}"}
    with (
        forked_web_server(settings, tmp_path, PYTHONPATH=doors_path, **patience) as web,
        contextlib.ExitStack() as kept,
    ):
        for beginning in (b"", b"GET /v1"):
            kept.enter_context(web.connect()).send(beginning)
        line = kept.enter_context(web.connect())
        line.send(b"GET /doors/hang?fifo=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % os.fsencode(fifo))
        with fifo.open("wb") as gate:  # blocks until the request waits for it
            os.kill(web.pid, signal.SIGTERM)
            wait_until(lambda: "Handling signal: term" in web.output(), "the server is asked to stop")
            gate.write(b"late")
        answer = line.answer()
        assert (answer.status, answer.body) == (200, b"late")
        wait_until(lambda: "Shutting down: Master" in web.output(), "the server has ended")
    assert "SIGKILL" not in web.output()


def test_tls_is_refused_in_one_line(settings: Settings, tmp_path: Path) -> None:
    certificate, log = Authority(tmp_path).write(tmp_path / "ca.pem"), tmp_path / "log"
    environ = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "PORT": str(free_port())}
    secrets = {"REDIS_URL": settings.redis_url, "SECRET_KEY": settings.secret_key}
    command = (*GUNICORN[1:], "--certfile", str(certificate))
    assert ForkedProcess(log, run_module, {**environ, **secrets}, *command).wait() == 1
    assert "leave TLS (certfile, keyfile) to the proxy in front" in log.read_text()
    assert "Traceback" not in log.read_text()
