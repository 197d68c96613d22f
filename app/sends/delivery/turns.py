"""When messages are due again for which a transport has no room now.

Each account has its own turns, one message after the other at the pace of the transport: a backlog of a hundred
thousand is claimed a few times and not all the time, stands before no message of another account, and leaves the
account's messages over other transports alone.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from app.clock import now

MAX_AHEAD = 300.0
"""Seconds; a transport may be quicker by then."""
MAX_ACCOUNTS = 10_000


class Turns:
    """The turns at one transport in one worker; one thread at a time uses it."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        """Account -> its last turn, by the monotonic clock."""

    def next(self, account_id: int, step: float) -> datetime:
        """The next turn of the account, at least `step` seconds behind the one before."""
        moment = time.monotonic()
        turn = min(max(self._last.get(account_id, moment), moment) + step, moment + MAX_AHEAD)
        if len(self._last) >= MAX_ACCOUNTS:
            self._last = {account: last for account, last in self._last.items() if last > moment}
        self._last[account_id] = turn
        return now() + timedelta(seconds=turn - moment)
