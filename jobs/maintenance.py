"""Job of the queue `maintenance`."""

from __future__ import annotations

import functools

from app.maintenance import sweeps
from app.maintenance.purging import Purger
from jobs.runtime import process_services


@functools.cache
def purger() -> Purger:
    """The purger of this process."""
    return Purger(process_services())


def clean() -> None:
    """Deletes rows past their retention. What forgetting has left in the files of the database and what may be many is
    purged in the background, even if the rest fails."""
    try:
        sweeps.clean(process_services())
    finally:
        purger().start()
