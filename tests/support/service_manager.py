"""The socket to which processes tell a service manager how they are."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.servers import PATIENCE


class ServiceManager:
    """Receives what a process tells; `environ` is what systemd would give to it."""

    def __init__(self, folder: Path, watchdog_seconds: float) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(str(folder / "notify"))
        self.line.settimeout(PATIENCE)
        self.environ = {
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": str(int(watchdog_seconds * 1_000_000)),
        }

    def told(self) -> list[str]:
        """The lines of the next datagram."""
        return self.line.recv(4096).decode().splitlines()

    def wait_for(self, line: str) -> None:
        """Waits for a datagram with that line."""
        while line not in self.told():
            pass

    def hears_something(self, seconds: float) -> bool:
        """Whether a datagram arrives within that time, after those that have arrived."""
        self.line.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self.told()
        self.line.settimeout(seconds)
        try:
            return bool(self.told())
        except TimeoutError:
            return False


@contextmanager
def service_manager(folder: Path, watchdog_seconds: float = 0.04) -> Iterator[ServiceManager]:
    """Listens in a folder with a short path; a sign of life is due four times in `watchdog_seconds`."""
    manager = ServiceManager(folder, watchdog_seconds)
    with manager.line:
        yield manager
