"""Messages that return to the send queue while a worker sends, in slices: scheduled ones whose time has come, and those
that a pause had put aside that has ended."""

from __future__ import annotations

import math
import threading
import time
from functools import cache, partial

from sqlalchemy import BigInteger, bindparam, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Database
from app.db.prepared import PreparedStatement
from app.db.types import UtcDateTime
from app.sends.pauses.release import PausedMessages, next_ended_pause
from app.sends.scheduled import ScheduledMessages, has_scheduled_due

SECONDS_BETWEEN_SLICES = 0.1
"""Seconds at least between two slices: on SQLite other writers look again after as many."""
LOOK_INTERVAL = 1.0
"""Seconds after a look that has found nothing."""


def has_returning(session: Session) -> bool:
    """Whether messages are to return."""
    pause_id, is_due = _look(session)
    return is_due or pause_id is not None


def _look(session: Session, last: int = 0) -> tuple[int | None, bool]:
    """The next pause after `last` that has ended, and whether the time of a scheduled message has come, at once."""
    ((pause_id, is_due),) = _statement().tuples(session, moment=now(), last=last)
    return pause_id, bool(is_due)


@cache
def _statement() -> PreparedStatement:
    pause_id = next_ended_pause(bindparam("last", type_=BigInteger()))
    return PreparedStatement(select(pause_id, has_scheduled_due(bindparam("moment", type_=UtcDateTime()))))


class ReturningMessages:
    """The slices that one drain takes, as long as messages are to return."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next = math.inf
        self._scheduled, self._paused = ScheduledMessages(), PausedMessages()
        self.has_left = False
        """Whether there may be more."""

    def begin(self) -> None:
        """Looks from now on: not before the first messages are sent, for which a client may wait."""
        self._next = 0.0

    def queue_slices(self, stopping: threading.Event | None = None) -> int:
        """Queues a slice of each kind, if it is time for that; returns the number of messages. With `stopping` it waits
        for that time, unless that is set, if there may be more."""
        if stopping is not None and self.has_left:
            stopping.wait(max(0.0, self._next - time.monotonic()))
        began = time.monotonic()
        if began < self._next:
            return 0
        with self._database.read() as session:
            pause_id, is_due = _look(session, self._paused.last)
        self.has_left = is_due or pause_id is not None
        queued = self._queue_scheduled() if is_due else 0
        if pause_id is not None:
            queued += self._database.transact(partial(self._paused.queue_slice, pause_id=pause_id))
        ended_at = time.monotonic()
        self._next = ended_at + (max(SECONDS_BETWEEN_SLICES, ended_at - began) if self.has_left else LOOK_INTERVAL)
        return queued

    def _queue_scheduled(self) -> int:
        try:
            return self._database.transact(self._scheduled.queue_due)
        except BaseException:
            self._scheduled.forget()
            raise
