"""Draining: the recipients that are due go out, for one slice of time (design: the way of one send).

A drain is one loop. It claims a chunk, loads what the chunk needs and hands it to the threads of the station, which
render and transmit; meanwhile it collects their verdicts and writes them, many in one transaction. It alone uses the
database, and never while it waits for the network.

Two rules keep one account's backlog from holding up another one's message. A claim takes evenly from all accounts
that wait. And what has waited for a free connection for half a second goes back into the queue, so that the next claim
decides anew; chunks shrink then, and grow again while everything goes out at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from app.clock import now
from app.queueing import SENDS
from app.sends.claim import LEASE, Claimed, claim, give_back, give_back_others, has_due, postpone, renew
from app.sends.destinations import hold_back
from app.sends.flight import Flight
from app.sends.load import Parcel, load, within_budget
from app.sends.outcome import RetryRules
from app.sends.pace import LARGEST_CHUNK
from app.sends.retry import recover_expired_leases
from app.sends.settle import settle
from app.sends.station import Station, close_station, renew_station, station_of
from app.sends.telling import tell_operator
from app.sends.throttle import rates_of, too_fast
from app.sends.uncertain import look_into
from app.sends.verdicts import Verdict
from app.services import Services

logger = logging.getLogger(__name__)

SLICE = 30.0
"""Seconds after which a drain makes room for the next wake-up."""
LONGEST_WAIT = 0.5
"""Seconds that a claimed row may wait for a free connection."""
SETTLE_AFTER = 0.1
"""Seconds that a verdict waits for others to be written with."""
PAUSE = 0.1
"""Seconds between two looks at an empty queue while messages are on their way."""
TROUBLE_PAUSE = 1.0
"""Seconds before a database that failed is tried again."""


def drain(services: Services) -> None:
    """Sends what is due until nothing is, the time slice ends, or the process is asked to stop.

    When work is left, another wake-up goes out for it.
    """
    try:
        sending = Drain(services, station_of(services))
        sending.begin()
        recover_expired_leases(services)
        look_into(services)
        sending.run()
    except BaseException:
        # The next drain settles by its journal what this one could not.
        renew_station(services)
        raise
    finally:
        if services.stopping.is_set():
            close_station(services)
    with services.database.read() as session:
        work_left = has_due(session)
    if work_left:
        services.wake_ups.wake(SENDS)


class Drain:
    """One run of the loop, and what it has to write to the database next."""

    def __init__(self, services: Services, station: Station) -> None:
        self._services = services
        self._station = station
        self._rules = RetryRules.of(services.settings)
        self._flight = Flight(station)
        self._verdicts: list[Verdict] = []
        self._returned: list[int] = []
        self._postponed: dict[int, datetime] = {}
        self._end = time.monotonic() + SLICE
        self._next_look = self._paused_until = self._first_verdict_at = 0.0
        self._renewed_at = time.monotonic()
        self._claim_in_doubt = False
        """A claim failed, and may have been committed all the same."""

    def begin(self) -> None:
        """The first message leaves before anything else is looked after: somebody may wait for just this one."""
        if self._is_open():
            self._take_on()
            self._collect()

    def run(self) -> None:
        """Goes on until everything is sent and written down.

        It ends early, and leaves verdicts to the journal, only when the process stops while the database fails.
        """
        self._next_look = 0.0  # what was recovered since the first look is due, too
        while self._round():
            if (self._flight or self._claim_in_doubt) and time.monotonic() > self._end + LONGEST_WAIT:
                self._end = time.monotonic() + SLICE  # one slow message must not hold up all others
        if not self._verdicts:
            self._station.journal.clear()

    def _round(self) -> bool:
        """Collect, write, take on; tells whether there is more to do."""
        self._collect()
        self._withdraw()
        if self._must_write():
            self._write()
        if self._is_open() and time.monotonic() >= self._next_look:
            self._take_on()
        stopping = self._services.stopping.is_set()
        if stopping and self._is_paused() and not self._flight:
            return False
        to_write = self._verdicts or self._returned or self._postponed
        return bool(self._flight or to_write or (self._claim_in_doubt and not stopping))

    def _is_open(self) -> bool:
        """Whether rows may be claimed and handed over."""
        return not (self._services.stopping.is_set() or self._is_paused() or time.monotonic() > self._end)

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _pause(self, error: DBAPIError) -> None:
        logger.warning("the database fails, trying again: %s", error)
        self._paused_until = time.monotonic() + TROUBLE_PAUSE

    def _collect(self) -> None:
        if self._is_paused() and not self._flight:
            self._services.stopping.wait(PAUSE)
        self._add_verdicts(self._flight.collect(PAUSE))

    def _add_verdicts(self, verdicts: Sequence[Verdict]) -> None:
        if verdicts and not self._verdicts:
            self._first_verdict_at = time.monotonic()
        self._verdicts += verdicts

    def _withdraw(self) -> None:
        """What has waited too long goes back into the queue; everything that waits, when nothing more may be sent."""
        if not self._is_open():
            self._returned += self._flight.withdraw(0)
        elif stale := self._flight.withdraw(LONGEST_WAIT):
            self._returned += stale
            self._station.pace.slow_down()

    def _must_write(self) -> bool:
        if self._is_paused():
            return False
        ripe = not self._flight or time.monotonic() > self._first_verdict_at + SETTLE_AFTER
        enough = self._verdicts and (ripe or len(self._verdicts) >= LARGEST_CHUNK)
        return bool(enough or self._returned or self._postponed or self._must_renew())

    def _must_renew(self) -> bool:
        return bool(self._flight) and time.monotonic() > self._renewed_at + LEASE / 4

    def _write(self) -> None:
        """Verdicts, returned rows and leases in one transaction. What fails is kept and written later."""
        renewing = self._must_renew()
        try:
            with self._services.database.write() as transaction:
                made = settle(transaction, self._station.worker, self._verdicts, self._rules)
                give_back(transaction, self._station.worker, self._returned)
                postpone(transaction, self._station.worker, self._postponed)
                if renewing:
                    renew(transaction, self._station.worker, self._flight.ids)
        except DBAPIError as error:
            self._pause(error)
            return
        if renewing:
            self._renewed_at = time.monotonic()
        self._verdicts, self._returned, self._postponed = [], [], {}
        tell_operator(made)

    def _take_on(self) -> None:
        """Claims the next chunk when few rows are waiting; a look that finds nothing is not repeated at once."""
        waiting = self._flight.waiting()
        if waiting > self._station.pace.chunk // 4:
            return
        free = self._station.connections - (len(self._flight) - waiting)
        claimed = self._claim(max(self._station.pace.chunk, free))
        if claimed:
            self._station.pace.claimed(len(claimed))
            self._load(claimed)
        else:
            self._next_look = time.monotonic() + PAUSE

    def _claim(self, size: int) -> list[Claimed]:
        last = self._station.last_account
        try:
            with self._services.database.write() as transaction:
                if self._claim_in_doubt:
                    give_back_others(transaction, self._station.worker, self._in_hand())
                claimed = claim(transaction, self._station.worker, size=size, after=last)
                kept = hold_back(transaction, self._station.worker, claimed)
        except DBAPIError as error:
            self._claim_in_doubt = True
            self._pause(error)
            return []
        self._claim_in_doubt = False
        if claimed:
            self._station.last_account = max(
                (one.account_id for one in claimed), key=lambda account: (account <= last, account)
            )
        return kept

    def _in_hand(self) -> list[int]:
        return [
            *self._flight.ids,
            *self._returned,
            *self._postponed,
            *(verdict.recipient_id for verdict in self._verdicts),
        ]

    def _load(self, claimed: list[Claimed]) -> None:
        """Hands over what is to be sent; the rest is skipped, or too large to be held in memory now."""
        try:
            with self._services.database.read() as session:
                kept = within_budget(session, claimed)
                parcels = load(session, kept)
                rates = rates_of(session, parcels)
        except DBAPIError as error:
            self._pause(error)
            self._returned += [one.id for one in claimed]
            return
        self._returned += [one.id for one in claimed[len(kept) :]]
        self._add_verdicts([_skipped(parcel, parcel.skip) for parcel in parcels if parcel.skip])
        due = [parcel for parcel in parcels if not parcel.skip]
        later = too_fast(self._services.redis, rates, due)
        self._postponed |= later
        self._flight.hand_over(parcel for parcel in due if parcel.recipient.id not in later)


def _skipped(parcel: Parcel, reason: str) -> Verdict:
    recipient = parcel.recipient
    return Verdict(recipient.id, recipient.attempts, parcel.addressee.address or None, now(), skip=reason)
