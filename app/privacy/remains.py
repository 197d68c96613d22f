"""What is left of forgotten people in the files of the database (docs/privacy.md#remains-in-files).

Erasing marks it in the transaction that removes something, and the maintenance cleans the files: whoever forgets does
not wait for it, and a process that dies in between leaves the mark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import delete, select

from app.db.database import Database
from app.db.models import Remains
from app.db.remains import compact, compact_within, empty_log, file_size, renew_statistics
from app.distribution import COMMAND_LINE
from app.privacy.places import tables_of_places
from app.services import Services

SMALL = 64 * 1024 * 1024
"""Bytes up to which the maintenance compacts a SQLite file: its new pages are written in a moment."""
LONGEST = 0.5
"""Seconds for which it keeps others from writing before that."""
APART = 1800.0
"""Seconds between two tries: others cannot write for a moment."""
TOO_LARGE = f"SQLite's file is too large to be compacted beside those who write: run `{COMMAND_LINE} db compact`"

logger = logging.getLogger(__name__)


class RemainsCleaner:
    """The cleaning of one process, which is tried once in a while, however often the maintenance runs."""

    def __init__(self, services: Services, clock: Callable[[], float] = time.monotonic) -> None:
        self._services, self._clock = services, clock
        self._due = clock()

    def clean(self) -> None:
        """Cleans the files if that is due and there is a mark."""
        if self._clock() >= self._due and _marked_since(self._services.database) is not None:
            self._due = self._clock() + APART
            clean_remains(self._services)


def clean_remains(services: Services) -> None:
    """Takes statistics anew, and compacts SQLite's file, where something was removed since it was done last. What
    cannot be done now, because others use the file, is tried again by the next maintenance."""
    since = _marked_since(services.database)
    if since is None:
        return
    renew_statistics(services.database, tables_of_places())
    if _cleaned(services.database):
        _unmark(services.database, since)


def remove_remains(database: Database) -> bool:
    """The same at once, however long nobody else can write meanwhile. Returns whether it was done."""
    since = _marked_since(database)
    renew_statistics(database, tables_of_places())
    is_done = compact(database)
    if is_done and since is not None:
        _unmark(database, since)
    return is_done


def _marked_since(database: Database) -> datetime | None:
    with database.read() as session:
        return session.scalar(select(Remains.since_time))


def _unmark(database: Database, since: datetime) -> None:
    """Unless something was removed since then, which may have come too late for what was done."""
    with database.write() as transaction:
        transaction.execute(delete(Remains).where(Remains.since_time == since))


def _cleaned(database: Database) -> bool:
    size = file_size(database)
    if size is None:
        return True
    if size <= SMALL:
        return compact_within(database, LONGEST)
    is_done = empty_log(database)
    if is_done:
        logger.info(TOO_LARGE, extra={"bytes": size})
    return is_done
