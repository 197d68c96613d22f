"""How many rows a worker claims at once: as many as go out without waiting long."""

from __future__ import annotations

LARGEST_CHUNK = 400


class Pace:
    """Halves when claimed rows had to wait too long for a free connection, and doubles while none has to."""

    def __init__(self) -> None:
        self.chunk = LARGEST_CHUNK
        self._slowed = False

    def slow_down(self) -> None:
        """Rows of the last chunk waited too long."""
        self.chunk = max(1, self.chunk // 2)
        self._slowed = True

    def next_chunk(self) -> int:
        """The size of the next chunk."""
        if not self._slowed:
            self.chunk = min(self.chunk * 2, LARGEST_CHUNK)
        self._slowed = False
        return self.chunk
