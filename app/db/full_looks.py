"""When a look at everything may be made: one that costs more the more there is, beside others that do not."""

from __future__ import annotations

import time

FULL_SHARE = 0.01
"""Share of the time that such looks may take."""


class FullLooks:
    """A look that took so long is made again when it will have taken that share of the time: a quick one soon."""

    def __init__(self, share: float = FULL_SHARE) -> None:
        self._share = share
        self._due = 0.0

    def is_due(self) -> bool:
        """Whether the next look may be at everything; the first one is."""
        return time.monotonic() >= self._due

    def note(self, began: float) -> None:
        """One has ended, which began at that time of the monotonic clock."""
        ended = time.monotonic()
        self._due = ended + (ended - began) * (1 / self._share - 1)

    def renew(self) -> None:
        """The next look is at everything."""
        self._due = 0.0
