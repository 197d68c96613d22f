"""The listener process for bounces and complaints: `python -m jobs.inbound`, at the address INBOUND_LISTEN.

Without that setting it only waits to be stopped, so that a process manager need not know whether it is enabled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket

from app.inbound.email.listener import Listener
from app.infrastructure import liveness, replacing
from app.infrastructure.heartbeat import Heartbeat
from app.services import Services
from jobs.runtime import process_services

logger = logging.getLogger("jobs.inbound")

SOCKETS = "TMS_INBOUND_SOCKETS"
"""Variable with the descriptors of the listening sockets that newer code takes over."""


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
            while not self._asked.is_set():
                liveness.report()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), liveness.seconds)
            self._asked.clear()
            if self._stopped or await asyncio.to_thread(replacing.new_code_starts, os.environ):
                return not self._stopped


async def run(services: Services) -> dict[str, str] | None:
    """Listens until the process is asked to stop. Returns the environment of the code that replaces this process."""
    requests = Requests()
    if services.settings.inbound_listen is None:
        logger.info("INBOUND_LISTEN is not set, nothing to do")
        return dict(os.environ) if await requests.is_replaced() else None
    host, port = services.settings.inbound_listen
    listener = Listener(services)
    await listener.listen(host, port, _handed_over())
    logger.info("listening for bounces and complaints", extra={"host": host, "port": port})
    if await requests.is_replaced():
        descriptors = await listener.hand_over()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)
        return {**os.environ, SOCKETS: ",".join(map(str, descriptors))}
    services.stopping.set()
    listener.close()
    return None


def _handed_over() -> list[socket.socket]:
    return [socket.socket(fileno=int(each)) for each in os.environ.pop(SOCKETS, "").split(",") if each]


def main() -> None:
    """Ends on SIGTERM and SIGINT, and SIGUSR2 replaces it by newer code; an address that cannot be bound is one line
    and exit status 1."""
    services = process_services()
    heartbeat = Heartbeat(services.database, ["inbound"], settings=services.settings)
    heartbeat.start()
    try:
        replacement = asyncio.run(run(services))
    except OSError as error:
        raise SystemExit(f"INBOUND_LISTEN: cannot listen there: {error.strerror or error}") from None
    heartbeat.stop()
    services.database.close()
    logger.info("stopped listening")
    if replacement is not None:
        replacing.run_again(replacement)


if __name__ == "__main__":
    main()
