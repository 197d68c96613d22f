"""What the parts of the client have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from transactional_messaging.caller import Caller
from transactional_messaging.errors import WaitedTooLong

T = TypeVar("T")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class Part:
    """The operations of one resource."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller


def wait_for(look: Callable[[], T | None], timeout: float, what: str) -> T:
    """What `look` returns, once that is not None. Raises `WaitedTooLong`. Looks ever more rarely."""
    end, pause = time.monotonic() + timeout, FIRST_PAUSE
    while (found := look()) is None:
        left = end - time.monotonic()
        if left <= 0:
            raise WaitedTooLong(f"{what}: not within {timeout:g} seconds")
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
    return found
