"""Purging what is past its retention, in slices that no request waits for (docs/operations.md#retention)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from app.clock import now
from app.db.write_turns import WriteTurns
from app.retention.periods import Period, Stage, overdue
from app.retention.slices import LEAST, Task, begin, purge_slice
from app.services import Services

TARGET = 0.02
"""Seconds that a slice shall take."""
SHARE = 0.15
"""The part of the time in which a slice is being purged."""
SENDS_AT_FIRST = 10

logger = logging.getLogger(__name__)


def purge(services: Services, stage: Stage, of_accounts: Sequence[Period], moment: datetime | None = None) -> int:
    """Purges what the accounts keep no longer, until nothing of it is left or the process is to end. Returns the number
    of sends."""
    moment = moment or now()
    with services.database.read() as session:
        found = overdue(session, of_accounts, stage, moment)
    turns = WriteTurns(services.database, target=TARGET, share=SHARE, sleep=services.stopping.wait)
    return sum(_purge_account(services, turns, Task(stage, one.account_id, one.limit, moment)) for one in found)


def _purge_account(services: Services, turns: WriteTurns, task: Task) -> int:
    services.database.transact(partial(begin, stage=task.stage, account_id=task.account_id))
    sends, recipients, most_sends = 0, 0, SENDS_AT_FIRST
    while not services.stopping.is_set():
        size = max(turns.size, LEAST)
        work = partial(purge_slice, task=task, most_sends=most_sends, most_recipients=size)
        done = turns.take(size, work)
        if done is None:
            break
        sends, recipients = sends + done.purged, recipients + done.recipients
        # As many as had that number of recipients last time, so that nearly all that is read is purged.
        most_sends = max(1, size * done.sends // max(done.recipients, 1)) if done.recipients else size
        most_sends = min(most_sends, size)
    if sends:
        logger.info("purged %s", task.stage, extra={"account_id": task.account_id, "sends": sends})
    return sends
