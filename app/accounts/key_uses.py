"""When each key was last used: noted in memory by each request, written by each process once a minute.

No request waits for it, and no two write the same row at once for long: the heartbeat's thread writes the notes of all
keys in one statement, in a transaction of its own. A process that is killed loses its last minute.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from sqlalchemy import Update, or_, update

from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Database
from app.db.models import ApiKey, table_of
from app.db.types import BigId, UtcDateTime

PERIOD = 60.0
"""Seconds between two writes of a process."""


class KeyUses:
    """The latest uses of keys in this process that are not written yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[int, float] = {}
        self._lock = threading.Lock()
        self._due = time.monotonic() + PERIOD

    def note(self, key_id: int) -> None:
        """The key was used now."""
        moment = time.time()
        with self._lock:
            self._noted[key_id] = moment

    def write_if_due(self, at_end: bool = False) -> None:
        """Called every few seconds, and once more when the process ends. Raises `SQLAlchemyError`."""
        if at_end or time.monotonic() >= self._due:
            self._due = time.monotonic() + PERIOD
            self.write()

    def write(self) -> None:
        """Writes what is noted; a later use that another process has written stays. Raises `SQLAlchemyError`, and keeps
        the notes."""
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        rows = [{"row": key_id, "used": datetime.fromtimestamp(noted[key_id], UTC)} for key_id in sorted(noted)]
        try:
            with self._database.write() as transaction:
                _UPDATE.run(transaction, rows)
        except BaseException:
            with self._lock:
                self._noted = noted | self._noted
            raise


def _update(values: RowValues) -> Update:
    keys = table_of(ApiKey)
    is_older = or_(keys.c.last_used_time.is_(None), keys.c.last_used_time < values["used"])
    return update(keys).where(keys.c.id == values["row"], is_older).values(last_used_time=values["used"])


_UPDATE = BulkUpdate({"row": BigId, "used": UtcDateTime()}, _update)
