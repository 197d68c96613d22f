"""Adaptive batch size: how many rows a worker claims at once, so that each is sent without waiting long."""

from __future__ import annotations

INITIAL_BATCH_SIZE = 100
MAX_BATCH_SIZE = 400
"""Beyond it, the statements of a batch are a negligible part of the cost per row."""


class AdaptiveBatchSize:
    """Halves when claimed rows waited too long for a free connection; doubles after each full batch in which none
    did."""

    def __init__(self) -> None:
        self.size = INITIAL_BATCH_SIZE
        """The size of the next batch."""
        self._has_shrunk = False

    def shrink(self) -> None:
        """Halves the size, because rows of the last batch waited too long."""
        self.size = max(1, self.size // 2)
        self._has_shrunk = True

    def record_claim(self, count: int) -> None:
        """Doubles the size if a full batch was claimed and the last one did not wait."""
        if count >= self.size and not self._has_shrunk:
            self.size = min(self.size * 2, MAX_BATCH_SIZE)
        self._has_shrunk = False
