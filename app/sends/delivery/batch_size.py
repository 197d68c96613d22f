"""How many rows a worker claims at once: as many as go out without waiting long."""

from __future__ import annotations

INITIAL_BATCH_SIZE = 100
MAX_BATCH_SIZE = 400
"""Beyond it the statements of a chunk count for little in what a row costs."""


class AdaptiveBatchSize:
    """Halves when claimed rows had to wait too long for a free connection; doubles with each full chunk of which none
    had to."""

    def __init__(self) -> None:
        self.chunk = INITIAL_BATCH_SIZE
        """The size of the next chunk."""
        self._slowed = False

    def slow_down(self) -> None:
        """Rows of the last chunk waited too long."""
        self.chunk = max(1, self.chunk // 2)
        self._slowed = True

    def claimed(self, count: int) -> None:
        """So many rows were claimed."""
        if count >= self.chunk and not self._slowed:
            self.chunk = min(self.chunk * 2, MAX_BATCH_SIZE)
        self._slowed = False
