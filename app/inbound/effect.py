"""The effect of an inbound receipt, report or event, and the wait of one that came before the outcome that it is
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
    """It was recorded before, or changes nothing any more."""
    EARLY = "early"
    """The outcome of the attempt is not written yet: it may be a moment later."""
    IGNORED = "ignored"
    """It is not about a message that was sent, or reports nothing."""
    UNKNOWN = "unknown"
    """There is no such text message."""


def apply_with_patience(services: Services, work: Callable[[Transaction], Effect], patience: float) -> Effect:
    """Runs `work` in its own transaction. A gateway or a mail server may be quicker than the sender, which writes
    outcomes in batches: as long as the effect is EARLY this is repeated, for at most `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        effect = services.database.transact(work)
        if effect is not Effect.EARLY or time.monotonic() > end or services.stopping.is_set():
            return effect
        services.stopping.wait(POLL_INTERVAL)
