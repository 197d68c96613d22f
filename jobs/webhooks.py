"""Job of the queue `webhooks`."""

from __future__ import annotations

from app.events.dispatch import dispatch_due
from jobs.runtime import process_services


def dispatch() -> None:
    """Delivers the events of every due webhook."""
    dispatch_due(process_services())
