"""Job of the queue `maintenance`."""

from __future__ import annotations

import functools

from app.db.remains import RemainsCleaner
from app.maintenance import sweeps
from app.maintenance.purging import Purger
from jobs.runtime import process_services


@functools.cache
def purger() -> Purger:
    """The purger of this process."""
    return Purger(process_services())


@functools.cache
def cleaner() -> RemainsCleaner:
    """The cleaner of this process."""
    return RemainsCleaner(process_services().database)


def clean() -> None:
    """Deletes rows past their retention, and what forgetting has left in the files of the database; what may be many is
    purged in the background."""
    sweeps.clean(process_services())
    cleaner().clean()
    purger().start()
