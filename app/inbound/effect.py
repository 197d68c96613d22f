"""What a receipt, a report or an event that came in did; and the wait of one that overtook the outcome that it is
about."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

from app.db.database import Transaction
from app.services import Services

POLL_INTERVAL = 0.1
"""Seconds between two attempts, while the outcome is not written yet."""


class Effect(enum.Enum):
    """Effect of one inbound item."""

    RECORDED = "recorded"
    KNOWN = "known"
    """It came before, or changes nothing any more."""
    EARLY = "early"
    """The outcome of the attempt is not written yet: the same item a moment later may find it written."""
    IGNORED = "ignored"
    """It is about nothing that was sent, or reports nothing."""
    UNKNOWN = "unknown"
    """There is no such text message."""


def apply_with_patience(services: Services, work: Callable[[Transaction], Effect], patience: float) -> Effect:
    """Runs `work` in a transaction of its own. A gateway or a mail server may be quicker than the sender, which writes
    outcomes together: as long as the effect is EARLY this repeats it, for `patience` seconds at most."""
    end = time.monotonic() + patience
    while True:
        effect = services.database.transact(work)
        if effect is not Effect.EARLY or time.monotonic() > end or services.stopping.is_set():
            return effect
        services.stopping.wait(POLL_INTERVAL)
