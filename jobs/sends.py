"""The door of the queue `sends`."""

from __future__ import annotations

from app.inbound.smpp import incoming_handler
from app.sends.delivery.drain import drain as drain_due
from jobs.runtime import services


def drain() -> None:
    """Sends what is due, for one time slice."""
    drain_due(services(), incoming_handler(services()))
