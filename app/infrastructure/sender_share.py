"""The share of this process in what all processes that send may use together: the connections to a relay, the binds to
a gateway, and a rate while Redis does not answer (docs/routes.md#limits).

The processes are counted by their heartbeats in the database. One that starts takes its share at once, and the others
give it up with their next heartbeat; the share of one that is lost is free once it counts as silent.
"""

from __future__ import annotations

from collections.abc import Sequence


class SenderShare:
    """The share of one process. Until others are noted, everything is its own."""

    def __init__(self) -> None:
        self._position, self._processes = 0, 1

    def note(self, names: Sequence[str], name: str) -> None:
        """Notes the processes that send, the oldest first, of which this one has the name."""
        if name in names:
            self._position, self._processes = names.index(name), len(names)

    def connections(self, total: int) -> int:
        """How many of `total` connections this process may have: as many as others, and the oldest processes one more
        if they are not divisible. May be 0."""
        return total // self._processes + (self._position < total % self._processes)

    def rate(self, total: float) -> float:
        """Messages per second of this process, where all together have `total`."""
        return total / self._processes
