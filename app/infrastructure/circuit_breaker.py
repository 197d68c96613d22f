"""Not asking a server that did not answer: a request must not wait for Redis while others have just waited in vain."""

from __future__ import annotations

import time

SECONDS = 1.0


class CircuitBreaker:
    """One per process; whoever gets no answer begins it, and while it lasts nobody asks."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def lasts(self) -> bool:
        """Whether somebody has waited in vain within the last second."""
        return time.monotonic() < self._until

    def begin(self) -> None:
        """There was no answer."""
        self._until = time.monotonic() + SECONDS

    def end(self) -> None:
        """Lets everybody ask again at once."""
        self._until = 0.0
