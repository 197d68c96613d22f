"""Whether a relay, or a transport of a route, is used now: it is backed off while no message can be handed to it.

Connections that share it report how each message went. When a back-off ends, one message probes while the others still
go elsewhere: a destination that drops packets delays only one connection. If the probe fails, the back-off doubles, up
to five minutes; a destination that answers is available again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

FIRST_BACKOFF = 5.0
MAX_BACKOFF = 300.0


class Availability:
    """The availability of one destination in this process; threads share it. `name` is for the log."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.backoff_until = 0.0
        self._name = name
        self._backoff = FIRST_BACKOFF
        self._probing = False
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def is_backed_off(self) -> bool:
        """Whether messages go elsewhere now; False also when a back-off has ended, so that one may probe."""
        with self._lock:
            return not self._may_begin()

    def begin(self) -> bool:
        """Whether a message may be sent there: the destination is available, or this message is the probe. The caller
        reports how it went."""
        with self._lock:
            if not self._may_begin():
                return False
            self._probing = self._backoff != FIRST_BACKOFF
            return True

    def report(self, *, reached: bool) -> bool:
        """Records whether a message could be handed over. Several connections that fail together count once. Returns
        whether this began a back-off."""
        with self._lock:
            self._probing = False
            if reached:
                self._backoff, self.backoff_until = FIRST_BACKOFF, 0.0
                return False
            if self._clock() < self.backoff_until:
                return False
            self.backoff_until = self._clock() + self._backoff
            logger.warning("%s is backed off for %s s", self._name, self._backoff)
            self._backoff = min(self._backoff * 2, MAX_BACKOFF)
            return True

    def cancel(self) -> None:
        """Ends a probe that was not sent after all."""
        with self._lock:
            self._probing = False

    def _may_begin(self) -> bool:
        """Under the lock."""
        return self._backoff == FIRST_BACKOFF or not (self._probing or self._clock() < self.backoff_until)
