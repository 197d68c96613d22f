"""The listener process for emails that come back: `python -m jobs.inbound`, where INBOUND_LISTEN says.

Without that setting it only waits for its end, so that a process manager need not know whether it is wanted.
"""

from __future__ import annotations

import asyncio
import logging
import signal

from app.inbound.email.listener import listen
from app.services import Services
from jobs.runtime import services

logger = logging.getLogger("jobs.inbound")


async def run(parts: Services) -> None:
    """Listens until the process is asked to end."""
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_end.set)
    if parts.settings.inbound_listen is None:
        logger.info("INBOUND_LISTEN is not set, nothing to do")
        await asked_to_end.wait()
        return
    host, port = parts.settings.inbound_listen
    server = await listen(parts, host, port)
    logger.info("listening for emails that come back", extra={"host": host, "port": port})
    await asked_to_end.wait()
    parts.stopping.set()
    server.close()


def main() -> None:
    """Ends on SIGTERM and SIGINT; an address that cannot be listened on is one line and exit status 1."""
    parts = services()
    try:
        asyncio.run(run(parts))
    except OSError as error:
        raise SystemExit(f"INBOUND_LISTEN: cannot listen there: {error.strerror or error}") from None
    parts.database.close()
    logger.info("stopped listening")


if __name__ == "__main__":
    main()
