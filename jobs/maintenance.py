"""Job of the queue `maintenance`."""

from __future__ import annotations

from app.maintenance import sweeps
from jobs.runtime import process_services


def clean() -> None:
    """Deletes rows past their retention."""
    sweeps.clean(process_services())
