"""Job of the queue `maintenance`."""

from __future__ import annotations

import functools

from app.maintenance.purging import Purger
from jobs.runtime import process_services


@functools.cache
def purger() -> Purger:
    """The maintenance of this process."""
    return Purger(process_services())


def clean() -> None:
    """Begins what is to be done each hour, in threads: the webhooks of this process do not wait for it."""
    purger().start()
