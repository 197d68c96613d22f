"""The clock that the service reads is stepped in all its processes at once, as when somebody sets the machine's clock.

It is the one of app/clock.py and of time.time(); databases, Redis and the file system go on.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta

from sqlalchemy import func, select

from app.db.models import QueueEntry, Send
from tests.chaos.promises import Promise
from tests.chaos.record import RoundRecord, say_mode
from tests.chaos.registry import fault
from tests.chaos.stage import Stage
from tests.support.servers import wait_until

STEP = 3 * 3600
"""Seconds."""
STALL = 15.0
"""Seconds, longer than a webhook may stall."""
WRONG = 8.0
"""Seconds for which the clock is wrong."""


def _wrong_by(stage: Stage, seconds: int) -> None:
    say_mode(stage.folder / "clock", str(seconds))
    time.sleep(WRONG)
    say_mode(stage.folder / "clock", "0")


def _was_wrong(stage: Stage, _seen: RoundRecord) -> list[str]:
    """The step has reached the service: sends have been accepted at such times."""
    far = timedelta(seconds=STEP / 2)
    with stage.services.database.read() as session:
        first, last = session.execute(select(func.min(Send.creation_time), func.max(Send.creation_time))).one()
    return [] if last - first > far else ["the clock of the service was never wrong"]


@fault("clock-back", Promise.CLOCK, hook="stepped-clock", afterwards=_was_wrong)
def clock_back(stage: Stage, _chance: random.Random) -> None:
    """The clock goes back three hours, and forward again: then all leases have expired."""
    _wrong_by(stage, -STEP)


def _catch_up(stage: Stage) -> None:
    """Lets the clock show the times that it had while it was ahead, and what was accepted then be sent. Webhooks must
    not have waited for that."""
    time.sleep(STALL)
    say_mode(stage.folder / "clock", str(STEP))
    wait_until(lambda: not _is_queued(stage), "what was accepted while the clock was ahead is sent")


def _is_queued(stage: Stage) -> bool:
    with stage.services.database.read() as session:
        return session.scalar(select(QueueEntry.recipient_id).limit(1)) is not None


@fault("clock-forward", Promise.CLOCK, hook="stepped-clock", at_end=_catch_up, afterwards=_was_wrong)
def clock_forward(stage: Stage, _chance: random.Random) -> None:
    """The clock goes forward three hours, and back again."""
    _wrong_by(stage, STEP)
