"""Job of the queue `automations`."""

from __future__ import annotations

from app.runs.work import advance_due
from jobs.runtime import process_services


def advance() -> None:
    """Advances the runs of automations that are due, for one time slice."""
    advance_due(process_services())
