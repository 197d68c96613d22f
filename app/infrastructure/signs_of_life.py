"""Signs of life: every main loop calls `report` at each turn (docs/operations.md#signs-of-life).

Every few seconds a sign touches the file under which the process is registered (app/infrastructure/running.py), for the
health check of its container, and tells systemd's watchdog, where the process runs under one. A loop that hangs gives
none, so systemd restarts it. systemd's protocol is that of sd_notify(3): a line to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping

SECONDS = 5.0
"""Between two signs; a quarter of the watchdog's time where that is shorter."""
STALE_SECONDS = 120.0
"""A process without a sign for so long hangs: a turn takes 30 seconds at most, and a statement as long again."""
SEND_SECONDS = 1.0


class SignsOfLife:
    """Those of one process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._socket = environ.get("NOTIFY_SOCKET", "")
        watched = _watchdog_seconds(environ)
        self._is_watched = bool(watched and self._socket)
        self.seconds = min(SECONDS, watched / 4) if self._is_watched else SECONDS
        """Seconds between two signs."""
        self.turned = time.monotonic()
        """When the main loop last turned."""
        self._file: int | None = None
        self._next = 0.0

    def keep(self, file: int) -> None:
        """The descriptor of the file to touch, which replaces an earlier one."""
        if self._file is not None:
            os.close(self._file)
        self._file = file

    def leave(self) -> None:
        """In a process that was forked from this one: the file is not its own."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def report(self) -> None:
        """Called at each turn of the main loop, by its thread alone; it does something only when a sign is due."""
        self.turned = moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + self.seconds
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.utime(self._file)
        if self._is_watched:
            self._tell("WATCHDOG=1")

    def ready(self) -> None:
        """The process has started: its watchdog begins to watch."""
        self._tell("READY=1\nSTATUS=running")

    def starting(self, status: str) -> None:
        """The start takes longer, for the reason in the status: systemd waits for another while."""
        self._tell(f"STATUS={status}\nEXTEND_TIMEOUT_USEC={STALE_SECONDS * 1_000_000:.0f}")

    def _tell(self, state: str) -> None:
        """systemd may be away or busy; that must not end or delay the process."""
        if not self._socket:
            return
        address = "\0" + self._socket[1:] if self._socket.startswith("@") else self._socket
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(SEND_SECONDS)
            line.sendto(state.encode(), address)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """The time after which systemd restarts this process; 0 if it does not watch this one."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1_000_000 if microseconds.isascii() and microseconds.isdigit() else 0.0


_own = SignsOfLife(os.environ)
keep, leave, report, ready, starting = _own.keep, _own.leave, _own.report, _own.ready, _own.starting
seconds = _own.seconds


def turned() -> float:
    """When the main loop of this process last turned, on the monotonic clock."""
    return _own.turned
