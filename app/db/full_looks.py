"""Decides when a full look is due, whose cost grows with the queue, instead of one whose cost does not."""

from __future__ import annotations

import time

FULL_SHARE = 0.01
"""Share of the time that such looks may take."""


class FullLooks:
    """Repeats full looks rarely enough that they take that share of the time: a quick one soon."""

    def __init__(self, share: float = FULL_SHARE) -> None:
        self._share = share
        self._due = 0.0

    def is_due(self) -> bool:
        """Whether the next look may be a full one; the first one is."""
        return time.monotonic() >= self._due

    def note(self, began: float) -> None:
        """Records a full look that has ended, with its start on the monotonic clock."""
        ended = time.monotonic()
        self._due = ended + (ended - began) * (1 / self._share - 1)

    def renew(self) -> None:
        """Makes the next look a full one."""
        self._due = 0.0
