"""The door of the queue `maintenance`."""

from __future__ import annotations

from app.maintenance import sweeps
from jobs.runtime import services


def clean() -> None:
    """Deletes what has been kept long enough."""
    sweeps.clean(services())
