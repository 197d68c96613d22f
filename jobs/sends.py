"""The door of the queue `sends`."""

from __future__ import annotations

from app.sends import deliver
from jobs.runtime import services


def drain() -> None:
    """Sends what is due, for one time slice."""
    deliver.drain(services())
