"""Draining: the recipients that are due go out, for one slice of time (docs/architecture.md#a-send).

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

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now
from app.db.outage import is_unavailable, log_failure
from app.infrastructure.queueing import SENDS
from app.sends.delivery.batch_size import MAX_BATCH_SIZE
from app.sends.delivery.claim import LEASE, ClaimedRecipient, claim, has_due, release_unknown_claims
from app.sends.delivery.dispatcher import Dispatcher
from app.sends.delivery.domain_backoff import defer_backed_off
from app.sends.delivery.load import PreparedRecipient, load
from app.sends.delivery.memory_budget import within_budget
from app.sends.delivery.rate_limit import rates_of, too_fast
from app.sends.delivery.render_quota import apply_render_quota
from app.sends.delivery.sender_worker import SenderWorker, close_sender_worker, renew_sender_worker, sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult, internal_fault
from app.sends.outcomes.pending_outcomes import PendingOutcomes
from app.sends.outcomes.recovery import recover_expired_leases
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.uncertain import resolve_uncertain
from app.services import Services
from app.transports.sms.incoming import IncomingHandler

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


def drain(services: Services, handler: IncomingHandler | None = None) -> None:
    """Sends what is due until nothing is, the time slice ends, or the process is asked to stop.

    When work is left, another wake-up goes out for it. `handler` processes what the SMS gateway delivers, should this
    drain be the one that creates the sender worker.
    """
    try:
        sending = Drain(services, sender_worker_of(services, handler))
        sending.begin()
        sending.look_after_others()
        sending.run()
    except BaseException:
        # The next drain settles by its journal what this one could not.
        renew_sender_worker(services)
        raise
    finally:
        if services.stopping.is_set():
            close_sender_worker(services)
    with services.database.read() as session:
        work_left = has_due(session)
    if work_left:
        services.wake_ups.wake(SENDS)


class Drain:
    """One run of the loop, and what it has to write to the database next."""

    def __init__(self, services: Services, station: SenderWorker) -> None:
        self._services = services
        self._station = station
        self._flight = Dispatcher(station)
        self._unwritten = PendingOutcomes(services.database, station.worker, RetryRules.of(services.settings))
        self._end = time.monotonic() + SLICE
        self._next_look = self._paused_until = 0.0
        self._renewed_at = time.monotonic()
        self._claim_in_doubt = False
        """A claim failed, and may have been committed all the same."""

    def begin(self) -> None:
        """The first message leaves before anything else is looked after: somebody may wait for just this one."""
        if self._is_open():
            self._take_on()
            self._collect()

    def look_after_others(self) -> None:
        """What dead workers held, and what has been uncertain for long enough."""
        try:
            recover_expired_leases(self._services)
            resolve_uncertain(self._services)
        except SQLAlchemyError as error:
            self._pause(error)

    def run(self) -> None:
        """Goes on until everything is sent and written down.

        It ends early, and leaves verdicts to the journal, only when the process stops while the database fails.
        """
        self._next_look = 0.0  # what was recovered since the first look is due, too
        while self._round():
            if (self._flight or self._claim_in_doubt) and time.monotonic() > self._end + LONGEST_WAIT:
                self._end = time.monotonic() + SLICE  # one slow message must not hold up all others
        if not self._unwritten.verdicts:
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
        return bool(self._flight or self._unwritten or (self._claim_in_doubt and not stopping))

    def _is_open(self) -> bool:
        """Whether rows may be claimed and handed over."""
        return not (self._services.stopping.is_set() or self._is_paused() or time.monotonic() > self._end)

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _pause(self, error: SQLAlchemyError) -> None:
        """Waits for a database that is unavailable. Raises any other failure."""
        if not is_unavailable(error):
            raise error
        log_failure(logger, "sending waits", error)
        self._paused_until = time.monotonic() + TROUBLE_PAUSE

    def _collect(self) -> None:
        if self._is_paused() and not self._flight:
            self._services.stopping.wait(PAUSE)
        self._unwritten.add(self._flight.collect(PAUSE))

    def _withdraw(self) -> None:
        """What has waited too long goes back into the queue; everything that waits, when nothing more may be sent."""
        if not self._is_open():
            self._unwritten.returned += self._flight.withdraw(0)
        elif stale := self._flight.withdraw(LONGEST_WAIT):
            self._unwritten.returned += stale
            self._station.pace.slow_down()

    def _must_write(self) -> bool:
        if self._is_paused():
            return False
        new = self._unwritten
        ripe = not self._flight or time.monotonic() > new.since + SETTLE_AFTER
        enough = new.verdicts and (ripe or len(new.verdicts) >= MAX_BATCH_SIZE)
        return bool(enough or new.returned or new.postponed or self._must_renew())

    def _must_renew(self) -> bool:
        return bool(self._flight) and time.monotonic() > self._renewed_at + LEASE / 4

    def _write(self) -> None:
        """Verdicts, returned rows and leases. What fails is kept and written later."""
        renewing = self._must_renew()
        try:
            self._unwritten.write(self._flight.ids if renewing else ())
        except SQLAlchemyError as error:
            self._pause(error)
            return
        if renewing:
            self._renewed_at = time.monotonic()

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

    def _claim(self, size: int) -> list[ClaimedRecipient]:
        last = self._station.last_account
        try:
            with self._services.database.write() as transaction:
                if self._claim_in_doubt:
                    release_unknown_claims(transaction, self._station.worker, (*self._flight.ids, *self._unwritten.ids))
                claimed = claim(transaction, self._station.worker, size=size, after=last)
                kept = defer_backed_off(transaction, self._station.worker, claimed)
        except SQLAlchemyError as error:
            self._claim_in_doubt = True
            self._pause(error)
            return []
        self._claim_in_doubt = False
        if claimed:
            self._station.last_account = max(
                (one.account_id for one in claimed), key=lambda account: (account <= last, account)
            )
        return kept

    def _load(self, claimed: list[ClaimedRecipient]) -> None:
        """Hands over what is to be sent; the rest is skipped, or too large to be held in memory now."""
        try:
            with self._services.database.read() as session:
                kept = within_budget(session, claimed)
                parcels, later = apply_render_quota(session, load(session, kept), self._station.maker.bounds)
                rates = rates_of(session, parcels)
        except Exception as error:
            self._after_failed_load(claimed, error)
            return
        self._unwritten.returned += [one.id for one in claimed[len(kept) :]]
        self._unwritten.add([_skipped(parcel, parcel.skip) for parcel in parcels if parcel.skip])
        due = [parcel for parcel in parcels if not parcel.skip]
        later |= too_fast(self._services.redis, rates, due)
        self._unwritten.postponed |= later
        self._flight.hand_over(parcel for parcel in due if parcel.recipient.id not in later)

    def _after_failed_load(self, claimed: list[ClaimedRecipient], error: Exception) -> None:
        """A row that cannot be read is deferred alone; the others are found by halves."""
        if isinstance(error, SQLAlchemyError) and is_unavailable(error):
            self._unwritten.returned += [one.id for one in claimed]
            self._pause(error)
        elif len(claimed) > 1:
            half = len(claimed) // 2
            self._load(claimed[:half])
            self._load(claimed[half:])
        else:
            (one,) = claimed
            logger.error("cannot load what is to be sent", exc_info=error, extra={"uuid": one.uuid})
            self._unwritten.add(
                [AttemptResult(one.id, one.attempts, one.email or one.mobile, now(), internal_fault(error))]
            )


def _skipped(parcel: PreparedRecipient, reason: str) -> AttemptResult:
    recipient = parcel.recipient
    return AttemptResult(recipient.id, recipient.attempts, parcel.addressee.address or None, now(), skip=reason)
