"""The listener process for bounces and complaints: `python -m jobs.inbound`, at the address INBOUND_LISTEN.

Without that setting it only waits to be stopped, so that a process manager need not know whether it is enabled.
"""

from __future__ import annotations

from app.inbound.email.listener import Listener
from jobs.listening import ListeningProcess
from jobs.runtime import process_services


def main() -> None:
    """Runs until it is asked to stop."""
    services = process_services()
    ListeningProcess(
        role="inbound",
        variable="INBOUND_LISTEN",
        address=services.settings.inbound_listen,
        purpose="bounces and complaints",
        sockets="TMS_INBOUND_SOCKETS",
        make=lambda: Listener(services),
    ).main(services)


if __name__ == "__main__":
    main()
