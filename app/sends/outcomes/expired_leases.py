"""Looking for expired leases, whose workers are gone or stalled.

Settled entries stay in the index of leases until no snapshot held anywhere can see them. So a process remembers the
time before which it has found no lease: no new lease ends before it, because leases last longer than the clocks differ
and than a claim takes to commit. Now and then it still looks at all of them.
"""

from __future__ import annotations

import time
from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.full_looks import FULL_SHARE, FullLooks
from app.db.models import QueueEntry
from app.recipients.conditions import IS_SENDING
from app.sends.queue_begin import BEGINNING

QUIET_SECONDS = 60.0


class ExpiredLeases:
    """One per process that looks for them; one thread at a time uses it."""

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._full_looks = FullLooks(full_share)
        self._complained = -QUIET_SECONDS
        self.begin = BEGINNING
        """No lease that still stands ends before it."""

    def may_complain(self) -> bool:
        """Whether trouble with journals is to be logged: not at each look, of which there are two in a second."""
        moment = time.monotonic()
        if moment < self._complained + QUIET_SECONDS:
            return False
        self._complained = moment
        return True

    def workers(self, session: Session) -> set[str]:
        """The workers whose leases have expired."""
        moment, began = now(), time.monotonic()
        is_full = self._full_looks.is_due()
        statement = (
            select(QueueEntry.worker).distinct().where(_is_expired(BEGINNING if is_full else self.begin, moment))
        )
        workers = {worker for worker in session.scalars(statement) if worker}
        if is_full:
            self._full_looks.note(began)
        if not workers:
            self.begin = moment
        return workers


def _is_expired(since: datetime, moment: datetime) -> ColumnElement[bool]:
    return and_(IS_SENDING, QueueEntry.lease_time >= since, QueueEntry.lease_time < moment)
