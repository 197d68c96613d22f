"""What the processes that listen for mail have in common: how they stop, and how newer code takes over."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from app.infrastructure import liveness, replacing
from app.infrastructure.heartbeat import Heartbeat, Write
from app.services import Services
from app.settings import SettingsError
from app.smtp_server.listener import BoundedListener

logger = logging.getLogger("jobs.listening")


class Requests:
    """What signals ask for: to stop, or to be replaced by newer code."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._stopped = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(replacing.SIGNAL, self._asked.set)
        replacing.accept_signals()

    def _stop(self) -> None:
        self._stopped = True
        self._asked.set()

    async def is_replaced(self) -> bool:
        """Waits for one of the two, with signs of life; newer code that does not start is no request."""
        liveness.ready()
        while True:
            await _alive(self._asked.wait())
            self._asked.clear()
            if self._stopped or await _alive(asyncio.to_thread(self._new_code_starts)):
                return not self._stopped

    def _new_code_starts(self) -> bool:
        return replacing.new_code_starts(os.environ, is_stopped=lambda: self._stopped)


async def _alive(work: Coroutine[Any, Any, bool]) -> bool:
    """What the work returns, with signs of life until it does."""
    task = asyncio.create_task(work)
    while not task.done():
        liveness.report()
        await asyncio.wait([task], timeout=liveness.seconds)
    return task.result()


@dataclass(frozen=True, slots=True)
class ListeningProcess:
    """A process with one listener. Without its setting it only waits to be stopped, so that a process manager need not
    know whether it is enabled."""

    role: str
    variable: str
    """The setting with the address that it listens on, which is also named in errors."""
    address: tuple[str, int] | None
    purpose: str
    """What it listens for."""
    sockets: str
    """Variable with the descriptors of the listening sockets that newer code takes over."""
    make: Callable[[], BoundedListener]
    """Raises `SettingsError` for a setting that turns out to be unusable, which is exit status 2."""

    async def run(self, services: Services) -> dict[str, str] | None:
        """Listens until the process is asked to stop. Returns the environment of the code that replaces this process.
        Raises `OSError` for an address that cannot be listened on."""
        requests = Requests()
        if self.address is None:
            logger.info("%s is not set, nothing to do", self.variable)
            return dict(os.environ) if await requests.is_replaced() else None
        host, port = self.address
        listener = self.make()
        await listener.listen(host, port, self._handed_over())
        logger.info("listening for %s", self.purpose, extra={"host": host, "port": port})
        if await requests.is_replaced():
            descriptors = await listener.hand_over()
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            return {**os.environ, self.sockets: ",".join(map(str, descriptors))}
        services.stopping.set()
        listener.close()
        return None

    def _handed_over(self) -> list[socket.socket]:
        return [socket.socket(fileno=int(each)) for each in os.environ.pop(self.sockets, "").split(",") if each]

    def main(self, services: Services, also: Write | None = None) -> None:
        """Ends on SIGTERM and SIGINT, and SIGUSR2 replaces it by newer code; an address that cannot be bound is one
        line and exit status 1. The thread of the heartbeat calls `also`."""
        heartbeat = Heartbeat(services.database, [self.role], also=also, settings=services.settings)
        heartbeat.start()
        try:
            replacement = asyncio.run(self.run(services))
        except SettingsError as error:
            print(f"cannot start: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        except OSError as error:
            raise SystemExit(f"{self.variable}: cannot listen there: {error.strerror or error}") from None
        heartbeat.stop()
        services.close()
        logger.info("stopped listening")
        if replacement is not None:
            replacing.run_again(replacement)
