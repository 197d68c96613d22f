"""Job of the queue `sends`."""

from __future__ import annotations

from app.inbound.smpp import incoming_handler
from app.sends.delivery.drain import drain as drain_due
from jobs.runtime import process_services


def drain() -> None:
    """Sends what is due, for one time slice."""
    drain_due(process_services(), incoming_handler(process_services()))
