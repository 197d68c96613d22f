"""What the server answers itself is in the metrics, and its process has a heartbeat (docs/monitoring/metrics.md)."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import requests
from sqlalchemy import select

from app.db.database import Database
from app.db.models import RunningProcess
from app.settings import Settings
from tests.support.scraped import Samples, parsed, value
from tests.support.servers import PATIENCE, wait_until
from tests.support.web import Web


def scraped(web: Web) -> Samples:
    return parsed(requests.get(f"{web.base}/metrics", timeout=PATIENCE).text)


def answered(scraped: Samples, method: str, route: str, status: int) -> float:
    return value(scraped, "tms_http_requests_total", method=method, route=route, status=str(status))


def test_requests_that_the_server_refuses_are_counted(web: Web) -> None:
    before = answered(scraped(web), "GET", "/v1/lists", 400)
    with web.connect() as line:
        line.send(b"GET /v1/lists HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert line.answer().status == 400
    assert answered(scraped(web), "GET", "/v1/lists", 400) == before + 1


def test_a_request_that_waited_for_a_thread_in_vain_is_counted(hasty: Web, tmp_path: Path) -> None:
    """The only two threads are busy."""
    gates = [tmp_path / name for name in ("one", "two")]
    with ExitStack() as kept:
        lines = [kept.enter_context(hasty.connect()) for _ in gates]
        for gate, line in zip(gates, lines, strict=True):
            os.mkfifo(gate)
            line.send(b"GET /doors/hang?fifo=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % os.fsencode(gate))
            wait_until(lambda gate=gate: list(tmp_path.glob(f"{gate.name}.*")), "the request waits")
        with hasty.connect() as refused:
            assert refused.ask(b"GET /docs/errors HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 503
        for gate, line in zip(gates, lines, strict=True):
            gate.write_bytes(b"x")
            assert line.answer().status == 200
    assert answered(scraped(hasty), "GET", "/docs/errors", 503) >= 1


def test_an_api_process_has_a_heartbeat(web: Web, settings: Settings) -> None:
    database = Database(settings.database_url)
    (pid,) = web.workers()

    def beats() -> bool:
        with database.read() as session:
            rows = session.execute(select(RunningProcess.name, RunningProcess.roles)).all()
        return any(f"-{pid}-" in row.name and row.roles == "api" for row in rows)

    wait_until(beats, "it is written")
    database.close()
