"""The clock that the service reads is stepped in all its processes at once, as when somebody sets the machine's clock.

It is the one of app/clock.py and of time.time(); databases, Redis and the file system go on.
"""

from __future__ import annotations

import random
import time

from tests.chaos.limits import Limits
from tests.chaos.record import say_mode
from tests.chaos.registry import fault
from tests.chaos.stage import Stage

STEP = 3 * 3600
"""Seconds."""
WRONG = 8.0
"""Seconds for which the clock is wrong."""


def _wrong_by(stage: Stage, seconds: int) -> None:
    say_mode(stage.folder / "clock", str(seconds))
    time.sleep(WRONG)
    say_mode(stage.folder / "clock", "0")


@fault("clock-back", Limits(), hook="stepped-clock")
def clock_back(stage: Stage, _chance: random.Random) -> None:
    """The clock goes back three hours, and forward again: then all leases have expired."""
    _wrong_by(stage, -STEP)


@fault("clock-forward", Limits(), hook="stepped-clock")
def clock_forward(stage: Stage, _chance: random.Random) -> None:
    """The clock goes forward three hours, and back again."""
    _wrong_by(stage, STEP)
