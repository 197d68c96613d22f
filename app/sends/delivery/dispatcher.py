"""The messages that are with the threads: waiting for a connection, or on their way.

A thread keeps its connection from message to message, and threads are engaged as they are needed: one is enough for a
carrier that answers at once, and then no other one takes the processor from it. Others join while answers are awaited.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from app.sends.delivery.build import BuiltMessage
from app.sends.delivery.claim import LEASE
from app.sends.delivery.connection_slots import ConnectionSlot
from app.sends.delivery.load import PreparedRecipient
from app.sends.delivery.sender_worker import SenderWorker
from app.sends.outcomes.attempt_result import AttemptResult

STALLED = 0.05
"""Seconds without any verdict after which a quick connection counts as slow."""

GATHER = 0.01
"""Seconds in which more verdicts come together while many are on their way: to wake for each of them would take the
processor from the thread that sends."""

FRESH = LEASE / 2
"""Seconds after which a message that was handed over is not begun any more. Nothing waits that long, unless the process
did not run; then its lease may have run out, and another worker may have sent it."""

SIGNING_THREADS = os.cpu_count() or 1
"""An RSA signature takes longer than all the rest of a mail, and lets other threads run meanwhile."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    parcel: PreparedRecipient
    since: float

    @property
    def is_fresh(self) -> bool:
        """Whether it is surely ours still."""
        return time.monotonic() < self.since + FRESH


class _Ready(NamedTuple):
    waiting: _Waiting
    outgoing: BuiltMessage


class Dispatcher:
    """Hands parcels to a station's threads and collects what comes of them."""

    def __init__(self, station: SenderWorker) -> None:
        self._station = station
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._in_hand: set[int] = set()
        self._engaged = self._awaiting = 0
        """Threads that send, and how many of them wait for a carrier that is not quick or make a large message."""
        self._makes_large = False
        """Whether a thread makes a large message."""
        self._verdicts: queue.SimpleQueue[AttemptResult] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._in_hand)

    @property
    def ids(self) -> list[int]:
        """The recipients whose verdict has not been collected yet."""
        return list(self._in_hand)

    def waiting(self) -> int:
        """How many have not found a connection yet."""
        return len(self._waiting)

    def hand_over(self, parcels: Iterable[PreparedRecipient]) -> None:
        """Puts parcels at the end of the line."""
        moment = time.monotonic()
        added = [_Waiting(parcel, moment) for parcel in parcels]
        self._in_hand.update(one.parcel.recipient.id for one in added)
        with self._lock:
            self._waiting += added
            wanted = SIGNING_THREADS if any(one.parcel.letter.keys for one in added) else 1
            for _ in range(wanted - (self._engaged - self._awaiting)):
                self._engage()

    def withdraw(self, waited: float) -> list[int]:
        """Takes those back that have waited for `waited` seconds or longer; nothing of them was sent."""
        latest = time.monotonic() - waited
        withdrawn = []
        with self._lock:
            while self._waiting and self._waiting[0].since <= latest:
                withdrawn.append(self._waiting.popleft().parcel.recipient.id)
        self._in_hand.difference_update(withdrawn)
        return withdrawn

    def collect(self, seconds: float) -> list[AttemptResult]:
        """The verdicts that have come; waits at most that long for the first one, and not at all for nobody."""
        if not self._in_hand:
            return []
        found: list[AttemptResult] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._verdicts.get(timeout=min(seconds, STALLED)))
            if self._waiting:
                time.sleep(GATHER)
            while True:
                found.append(self._verdicts.get_nowait())
        if not found:
            with self._lock:
                self._engage()
        self._in_hand.difference_update(verdict.recipient_id for verdict in found)
        return found

    def _engage(self) -> None:
        """One more thread, if there is work and a connection for it. Under the lock."""
        if self._engaged < self._station.connections and self._has_next():
            self._engaged += 1
            self._station.threads.submit(self._run)

    def _run(self) -> None:
        """A thread's work, until nothing waits."""
        try:
            with self._station.lane() as lane:
                upcoming = self._next()
                while upcoming:
                    upcoming = self._send(lane, upcoming) or self._next()
        finally:
            with self._lock:
                self._engaged -= 1
                self._engage()

    def _send(self, lane: ConnectionSlot, ready: _Ready) -> _Ready | None:
        """Sends one message; gives the one that was announced with it, which must be the lane's next."""
        if not ready.waiting.is_fresh:
            with self._lock:
                self._waiting.appendleft(ready.waiting)  # where it is withdrawn
            return None
        # What is announced is the lane's next message: it cannot be, where a copy comes first.
        following = self._next() if self._may_announce(lane) and not ready.outgoing.copy else None
        with contextlib.nullcontext() if lane.is_quick else self._awaits():
            verdict = self._station.transmit(lane, ready.outgoing, following.outgoing if following else None)
        self._verdicts.put(verdict)
        return following

    def _may_announce(self, lane: ConnectionSlot) -> bool:
        """Whether nobody else would send the next message sooner."""
        free = self._engaged < self._station.connections
        return lane.announcing is not None and (lane.is_quick or (lane.is_steady and not free))

    @contextlib.contextmanager
    def _awaits(self) -> Iterator[None]:
        """Others may send meanwhile."""
        with self._lock:
            self._awaiting += 1
            self._engage()
        try:
            yield
        finally:
            with self._lock:
                self._awaiting -= 1

    def _next(self) -> _Ready | None:
        """The next message that waits.

        Large ones are made one at a time, while small ones pass them by: several at once would take the interpreter
        from everything else in this process, and all connections from the messages that are made at once.
        """
        with self._lock:
            waiting = self._take()
        if waiting is None:
            return None
        if not waiting.parcel.is_large:
            return _Ready(waiting, self._station.maker.make(waiting.parcel))
        try:
            with self._awaits():
                return _Ready(waiting, self._station.maker.make(waiting.parcel))
        finally:
            with self._lock:
                self._makes_large = False
                self._engage()

    def _take(self) -> _Waiting | None:
        """The first that may be begun now. Under the lock."""
        for place, waiting in enumerate(self._waiting):
            if self._may_begin(waiting):
                del self._waiting[place]
                self._makes_large |= waiting.parcel.is_large
                return waiting
        return None

    def _has_next(self) -> bool:
        """Whether a message waits that may be begun. Under the lock."""
        return any(map(self._may_begin, self._waiting))

    def _may_begin(self, waiting: _Waiting) -> bool:
        return waiting.is_fresh and not (self._makes_large and waiting.parcel.is_large)
