"""Processes that listen for mail, and connections to them."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.databases.running import Alone
from tests.support.forked import ForkedProcess, run_module
from tests.support.servers import PATIENCE, wait_until


@dataclass(frozen=True)
class ListenerProcess:
    """The process and its log."""

    process: ForkedProcess
    log: Path

    def lines(self) -> list[str]:
        """The log without the line about the database and the transports."""
        first, *further = self.log.read_text().splitlines()
        assert "using the database" in first
        return further

    def first_line(self) -> str:
        """The first of these lines, once there is one."""
        wait_until(lambda: self.log.exists() and self.log.read_text().count("\n") > 1, "it has written two lines")
        return self.lines()[0]


@contextmanager
def started(parts: Alone, module: str, **overrides: str) -> Iterator[ListenerProcess]:
    """The process with the settings of `parts`; killed if it does not end by itself."""
    settings = parts.services.settings
    variables = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
    log = settings.data_dir / f"{module}.log"
    log.unlink(missing_ok=True)
    process = ForkedProcess(log, run_module, {**variables, "SECRET_KEY": settings.secret_key, **overrides}, module)
    try:
        yield ListenerProcess(process, log)
    finally:
        process.kill()


MEGABYTE = 1 << 20
MOST_GROWTH = 48
"""Megabytes by which the process may grow while a stranger sends more."""


def resident(listener: ListenerProcess) -> int:
    """Megabytes of memory of the process."""
    pages = int(Path(f"/proc/{listener.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // MEGABYTE


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A connection that has sent nothing yet."""
    return socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(source, 0))


def replies(link: socket.socket) -> str:
    """All that is answered until the connection ends."""
    received = b""
    with suppress(ConnectionError):
        while piece := link.recv(65536):
            received += piece
    return received.decode()


def more_files() -> None:
    """Lets this process have a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))


@contextmanager
def own_process(parts: Alone, command: str, log: Path, **overrides: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a module, whose arguments stand behind its name, with a command line of its own, by which it can
    be replaced; killed if it does not end by itself."""
    settings = parts.services.settings
    variables = {"DATA_DIR": str(settings.data_dir), "DATABASE_URL": settings.database_url, "LOG_FORMAT": "json"}
    environment = {**os.environ, **variables, "SECRET_KEY": settings.secret_key, **overrides}
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", *command.split()], env=environment, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
