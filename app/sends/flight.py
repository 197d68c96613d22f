"""The messages that are with the threads: waiting for a free connection, or on their way."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from app.sends.load import Parcel
from app.sends.station import Station
from app.sends.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class _Entry:
    task: Future[None]
    since: float

    @property
    def waits(self) -> bool:
        return not self.task.running() and not self.task.done()


class Flight:
    """Hands parcels to a station's threads and collects what comes of them."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._entries: dict[int, _Entry] = {}
        self._verdicts: queue.SimpleQueue[Verdict] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def ids(self) -> list[int]:
        """The recipients whose verdict has not been collected yet."""
        return list(self._entries)

    def waiting(self) -> int:
        """How many have not found a free connection yet."""
        return sum(entry.waits for entry in self._entries.values())

    def hand_over(self, parcels: Iterable[Parcel]) -> None:
        """Puts parcels at the end of the line."""
        for parcel in parcels:
            task = self._station.threads.submit(self._carry, parcel)
            self._entries[parcel.recipient.id] = _Entry(task, time.monotonic())

    def _carry(self, parcel: Parcel) -> None:
        self._verdicts.put(self._station.transmit(parcel))

    def withdraw(self, waited: float) -> list[int]:
        """Takes those back that have waited for `waited` seconds or longer; nothing of them was sent."""
        latest = time.monotonic() - waited
        old = [number for number, entry in self._entries.items() if entry.since <= latest]
        withdrawn = [number for number in old if self._entries[number].task.cancel()]
        for number in withdrawn:
            del self._entries[number]
        return withdrawn

    def collect(self, seconds: float) -> list[Verdict]:
        """The verdicts that have come; waits at most that long for the first one, and not at all for nobody."""
        if not self._entries:
            return []
        found: list[Verdict] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._verdicts.get(timeout=seconds))
            while True:
                found.append(self._verdicts.get_nowait())
        for verdict in found:
            del self._entries[verdict.recipient_id]
        return found
