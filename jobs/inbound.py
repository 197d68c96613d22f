"""The listener process for bounces and complaints: `python -m jobs.inbound`, at the address INBOUND_LISTEN.

Without that setting it only waits to be stopped, so that a process manager need not know whether it is enabled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from app.inbound.email.listener import listen
from app.infrastructure import signs_of_life
from app.infrastructure.heartbeat import Heartbeat
from app.services import Services
from jobs.runtime import process_services

logger = logging.getLogger("jobs.inbound")


async def run(services: Services) -> None:
    """Listens until the process is asked to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if services.settings.inbound_listen is None:
        logger.info("INBOUND_LISTEN is not set, nothing to do")
        await _report_until(stop)
        return
    host, port = services.settings.inbound_listen
    server = await listen(services, host, port)
    logger.info("listening for bounces and complaints", extra={"host": host, "port": port})
    await _report_until(stop)
    services.stopping.set()
    server.close()


async def _report_until(stop: asyncio.Event) -> None:
    signs_of_life.ready()
    while not stop.is_set():
        signs_of_life.report()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), signs_of_life.seconds)


def main() -> None:
    """Ends on SIGTERM and SIGINT; an address that cannot be bound is one line and exit status 1."""
    services = process_services()
    heartbeat = Heartbeat(services.database, ["inbound"])
    heartbeat.start()
    try:
        asyncio.run(run(services))
    except OSError as error:
        raise SystemExit(f"INBOUND_LISTEN: cannot listen there: {error.strerror or error}") from None
    heartbeat.stop()
    services.database.close()
    logger.info("stopped listening")


if __name__ == "__main__":
    main()
