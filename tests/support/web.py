"""The API under gunicorn with the service's own configuration of it, as an operator runs it, and raw connections."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from app.db import bounded_connection
from app.settings import Settings
from tests.support.forked import ForkedProcess, run_module
from tests.support.servers import PATIENCE, free_port, wait_until

GUNICORN = ("-m", "gunicorn", "wsgi:application")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Web:
    """A server: its port, its process and its log."""

    port: int
    pid: int
    log: Path

    @property
    def base(self) -> str:
        """The base URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def output(self) -> str:
        """The complete log."""
        return self.log.read_text("utf-8", "replace")

    def lines(self, logger: str = "app.access") -> list[dict[str, object]]:
        """The log lines of one of its loggers."""
        records = [orjson.loads(line) for line in self.output().splitlines() if line.startswith("{")]
        return [line for line in records if line["logger"] == logger]

    def connect(self, source: str = "127.0.0.1") -> Line:
        """A new connection, from that address."""
        return Line(self.port, source=source)

    def workers(self) -> list[int]:
        """The process ids of its workers."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


@contextlib.contextmanager
def web_server(settings: Settings, folder: Path, **environ: str) -> Iterator[Web]:
    """Runs a server with the database, the Redis and the data folder of these settings; further settings by their
    variables."""
    log, port = folder / "web.log", free_port()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *GUNICORN],
            cwd=ROOT,
            env={**os.environ, **_environment(settings, port), **environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        web = Web(port, process.pid, log)
        wait_until(lambda: process.poll() is not None or _answers(port), "the API answers")
        assert process.poll() is None, web.output()
        yield web
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def forked_web_server(
    settings: Settings, folder: Path, limits: Mapping[int, int] | None = None, /, **environ: str
) -> Iterator[Web]:
    """A server that is forked, which saves the two seconds for its imports. `limits` are those of the system for the
    process, by the constants of `resource`."""
    log, port = folder / "web.log", free_port()
    process = ForkedProcess(log, serve, {**_environment(settings, port), **environ}, limits or {})
    try:
        web = Web(port, process.pid, log)
        wait_until(lambda: process.has_ended() or _answers(port), "the API answers")
        assert not process.has_ended(), web.output()
        yield web
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait() is None:
            process.kill()


def serve(environ: Mapping[str, str], limits: Mapping[int, int]) -> None:
    """Becomes a server, whose requests wait for the database as long as the tests do; what it prints to standard output
    goes into the log, too."""
    os.dup2(2, 1)
    bounded_connection.REQUEST_SECONDS = PATIENCE
    for resource_, limit in limits.items():
        resource.setrlimit(resource_, (limit, limit))
    sys.path[:0] = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    run_module(environ, *GUNICORN[1:])


def _environment(settings: Settings, port: int) -> dict[str, str]:
    return {
        "DATA_DIR": str(settings.data_dir),
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "SECRET_KEY": settings.secret_key,
        "RATE_LIMIT": "off",
        "LOG_FORMAT": "json",
        "WEB_WORKERS": "1",
        "PORT": str(port),
    }


def _answers(port: int) -> bool:
    try:
        line = Line(port)
    except OSError:
        return False
    with line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            return line.answer().status == 200
        except OSError:
            return False


@dataclass(frozen=True)
class Answer:
    """A response; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """The parsed body."""
        content: dict[str, object] = orjson.loads(self.body)
        return content


class Line:
    """One raw connection."""

    def __init__(self, port: int, patience: float = PATIENCE, source: str = "127.0.0.1") -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=patience, source_address=(source, 0))
        self._received = bytearray()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.link.sendall(data)

    def answer(self, *, head_only: bool = False) -> Answer:
        """The next response. Raises EOFError if the connection ends instead."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, end, _ = self._received.partition(b"\r\n\r\n")
        del self._received[: len(head) + len(end)]
        first, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        length = 0 if head_only else int(headers.get("content-length", 0))
        while len(self._received) < length:
            self._receive()
        body = bytes(self._received[:length])
        del self._received[:length]
        return Answer(int(first.split()[1]), headers, body)

    def ask(self, data: bytes) -> Answer:
        """Sends a request and returns its response."""
        self.send(data)
        return self.answer()

    def is_ended(self) -> bool:
        """Waits until the server closes the connection; False if it sends something instead."""
        try:
            self._received += self.link.recv(65536)
        except ConnectionError:
            return True
        return not self._received

    def _receive(self) -> None:
        part = self.link.recv(65536)
        if not part:
            raise EOFError(f"the connection ended after {bytes(self._received[:500])!r}")
        self._received += part
