"""Circuit breaker for Redis: after a timeout no request uses it for a second."""

from __future__ import annotations

import time

SECONDS = 1.0


class CircuitBreaker:
    """One per process. Closes automatically after SECONDS."""

    def __init__(self) -> None:
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the server failed to answer within the last second."""
        return time.monotonic() < self._open_until

    def open(self) -> None:
        """Opens the circuit breaker: the server did not answer."""
        self._open_until = time.monotonic() + SECONDS

    def close(self) -> None:
        """Lets the next request use the server at once."""
        self._open_until = 0.0
