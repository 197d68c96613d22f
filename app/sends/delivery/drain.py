"""Drain: sends the recipients that are due, for one time slice (docs/architecture.md#a-send).

A drain is one loop. It claims a batch of rows, loads what the batch needs and hands it to the threads of the sender
worker, which render and send; meanwhile it collects the attempt results and writes them, many in one transaction. Only
the loop uses the database, and never while it waits for the network.

Two rules keep the backlog of one account from delaying messages of another. A claim takes evenly from all accounts with
due rows. And a row that has waited half a second for a free connection goes back into the queue, so that the next claim
decides anew; batches shrink then, and grow again while everything is sent at once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from app.clock import now, uptime
from app.db.bounded_connection import limit_statements
from app.db.database import Database, Transaction
from app.db.outage import is_blocked, is_cancelled, is_unavailable, log_failure
from app.infrastructure import liveness
from app.infrastructure.redis_client import SENDS
from app.infrastructure.tracing import span
from app.recipients.states import WaitReason
from app.sends.delivery.claim import (
    LEASE,
    claim,
    has_due,
    is_full,
    locked_by_others,
    postpone,
    release_claims,
    release_unknown_claims,
    renew_leases,
)
from app.sends.delivery.dispatcher import Dispatchers
from app.sends.delivery.limits import within_budget
from app.sends.delivery.load import load
from app.sends.delivery.postponed import CHECKS_OF_LOADED, Waits, load_circumstances, put_off_claimed
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.delivery.returning import ReturningMessages
from app.sends.delivery.sender_worker import (
    JOURNAL_RETRY_DELAY,
    MAX_BATCH_SIZE,
    SenderWorker,
    close_sender_worker,
    deferred,
    not_sent,
    renew_sender_worker,
    sender_worker_of,
)
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.attempt_result import AttemptResult, internal_fault
from app.sends.outcomes.recovery import recover_expired_leases, resolve_uncertain
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import LOCK_SECONDS, report_transitions, write_bisecting, write_outcomes
from app.services import Services
from app.transports.sms.incoming import IncomingHandler

logger = logging.getLogger(__name__)


# Claiming a batch in one transaction, without what may not be sent now.


class Batch(NamedTuple):
    """What may be sent; and whether it is nothing because all that was claimed is paused, so that more may be due."""

    recipients: list[ClaimedRecipient]
    is_paused: bool = False


def claim_batch(
    services: Services, sender_worker: SenderWorker, size: int, kept_ids: Collection[int] | None = None
) -> Batch:
    """Claims about `size` recipients. If `kept_ids` are given, other recipients that are leased to the worker already
    are released."""
    worker, last, due = sender_worker.name, sender_worker.last_account, sender_worker.due
    number = next(sender_worker.claims)
    with services.database.write() as transaction:
        if kept_ids is not None:
            release_unknown_claims(transaction, worker, kept_ids)
        claimed = claim(transaction, worker, size=size, after=last, number=number, due=due)
        if is_full(claimed, size):
            transaction.after_commit(lambda: services.wake_ups.wake(SENDS))  # for another worker
        accepted, reasons = put_off_claimed(transaction, worker, claimed)
    sender_worker.last_account = due.last_account
    return Batch(accepted, is_paused=not accepted and WaitReason.PAUSE in reasons)


# What a drain still has to write: attempt results, released rows, leases.
#
# All of it is written in one transaction, unless one result cannot be written: then the results are written by
# bisecting, so that it neither delays the others nor stops the sender permanently. What waits for rows that another
# transaction has locked is put aside, and tried again from time to time.

LOCK_PATIENCE = 3.0
"""Seconds that a statement of the one transaction may take before the locked rows are looked for."""
LOCKED_RETRY_DELAY = 1.0
"""Seconds before locked rows are tried again."""


@dataclass(slots=True)
class Outcomes:
    """Results and changes."""

    results: list[AttemptResult] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    postponed: dict[int, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.results or self.released or self.postponed)

    @property
    def ids(self) -> list[int]:
        """The ids of all recipients in these outcomes."""
        return [*self.released, *self.postponed, *(result.recipient_id for result in self.results)]


class PendingOutcomes(Outcomes):
    """The results and changes of a drain that are not yet in the database."""

    def __init__(self, database: Database, worker: str, rules: RetryRules) -> None:
        super().__init__()
        self._database = database
        self._worker = worker
        self._rules = rules
        self.since = 0.0
        """When the oldest result was received, on the monotonic clock."""
        self.locked = Outcomes()
        """What waits until other transactions unlock the rows."""
        self.retry_time = 0.0
        """When that is tried again, on the monotonic clock."""

    @property
    def all_ids(self) -> set[int]:
        """The ids of all recipients in these outcomes, including those whose rows are locked."""
        return {*self.ids, *self.locked.ids}

    @property
    def is_retry_due(self) -> bool:
        """Whether locked rows are to be tried again."""
        return bool(self.locked) and time.monotonic() >= self.retry_time

    def add(self, results: Sequence[AttemptResult]) -> None:
        if results and not self.results:
            self.since = time.monotonic()
        self.results += results

    def write(self, renewed: Collection[int]) -> Collection[int]:
        """Writes all of it, and renews the leases of `renewed`; returns those that were. Whatever fails is kept.

        Raises `SQLAlchemyError` when the database is unavailable, and any failure that has nothing to do with results.
        """
        begins = not self.locked
        if begins:
            try:
                self._write_at_once(renewed)
            except Exception as error:
                may_be_locked = is_blocked(error) or is_cancelled(error)
                if not may_be_locked and (is_unavailable(error) or not self.results):
                    raise
            else:
                return renewed
        elif self.is_retry_due:
            self.results += self.locked.results
            self.released += self.locked.released
            self.postponed |= self.locked.postponed
            self.locked = Outcomes()
        renewed = self._write_beside_locks(renewed)
        if begins and self.locked:
            logger.warning("outcomes wait for rows that another transaction has locked: %d", len(self.locked.ids))
        return renewed

    def _write_at_once(self, renewed: Collection[int]) -> None:
        with (
            span("settle", tms__results=len(self.results)),
            limit_statements(LOCK_PATIENCE),
            self._database.write() as transaction,
        ):
            transitions = write_outcomes(transaction, self._worker, self.results, self._rules)
            self._write_changes(transaction, renewed)
        self.results, self.released, self.postponed = [], [], {}
        report_transitions(transitions)

    def _write_changes(self, transaction: Transaction, renewed: Collection[int]) -> None:
        release_claims(transaction, self._worker, self.released)
        postpone(transaction, self._worker, self.postponed)
        if renewed:
            renew_leases(transaction, self._worker, renewed)

    def _write_beside_locks(self, renewed: Collection[int]) -> Collection[int]:
        """Writes what can be written without waiting for locks of others, and puts aside what cannot."""
        left = write_bisecting(self._database, self._worker, self.results, self._rules).left
        self.results = []
        self._put_aside(Outcomes(left))
        with self._database.write() as transaction:
            transaction.limit_lock_waits(LOCK_SECONDS)
            locked = locked_by_others(transaction, self._worker, {*self.released, *self.postponed, *renewed})
            released = [row for row in self.released if row in locked]
            postponed = {row: due for row, due in self.postponed.items() if row in locked}
            self.released = [row for row in self.released if row not in locked]
            self.postponed = {row: due for row, due in self.postponed.items() if row not in locked}
            self._put_aside(Outcomes([], released, postponed))
            renewed = {*renewed} - locked
            self._write_changes(transaction, renewed)
        self.released, self.postponed = [], {}
        return renewed

    def _put_aside(self, outcomes: Outcomes) -> None:
        if not outcomes:
            return
        if time.monotonic() >= self.retry_time:
            self.retry_time = time.monotonic() + LOCKED_RETRY_DELAY
        self.locked.results += outcomes.results
        self.locked.released += outcomes.released
        self.locked.postponed |= outcomes.postponed


TIME_SLICE = 30.0
"""Seconds after which a drain makes room for the next wake-up."""
RECOVERY_SECONDS = 5.0
"""Seconds that each part of a recovery may take while the worker holds leases: none is renewed meanwhile."""
MAX_WAIT = 0.5
"""Seconds that a claimed row may wait for a free connection."""
WRITE_AFTER = 0.1
"""Seconds that a result waits for others to be written with."""
POLL_INTERVAL = 0.1
"""Seconds between two looks at an empty queue while messages are in flight."""
DATABASE_RETRY_DELAY = 1.0
"""Seconds before a database that failed is tried again."""


def drain(services: Services, handler: IncomingHandler | None = None) -> None:
    """Sends what is due until nothing is, the time slice ends, or the process is asked to stop; wakes another drain if
    work is left. `handler` processes what SMS gateways deliver, if this drain creates the sender worker."""
    sender_worker = _sender_worker(services, handler)
    if sender_worker is None:
        services.wake_ups.wake(SENDS)
        return
    try:
        loop = Drain(services, sender_worker)
        loop.send_first_batch()
        loop.recover()
        loop.run()
        sender_worker.router.after_drain()
    except BaseException:
        # The next drain writes the results that this one could not, from the journal.
        renew_sender_worker(services)
        raise
    finally:
        if services.stopping.is_set():
            close_sender_worker(services)
    if sender_worker.journal.is_broken:
        services.stopping.wait(JOURNAL_RETRY_DELAY)
    with services.database.read() as session:
        work_left = has_due(session, sender_worker.due)
        if not (loop.has_claimed or services.stopping.is_set()):
            sender_worker.router.update_idle(session)
    if work_left:
        services.wake_ups.wake(SENDS)


def _sender_worker(services: Services, handler: IncomingHandler | None) -> SenderWorker | None:
    """The sender worker; None as long as its journal cannot be created, after a wait."""
    try:
        return sender_worker_of(services, handler)
    except OSError as error:
        logger.error("sending waits: the journal cannot be created: %s", error)
        services.stopping.wait(JOURNAL_RETRY_DELAY)
        return None


class Drain:
    """One run of the loop, with its pending outcomes."""

    def __init__(self, services: Services, sender_worker: SenderWorker) -> None:
        self._services = services
        self._sender_worker = sender_worker
        self._dispatcher = Dispatchers(sender_worker, services.rates)
        self.has_claimed = False
        self._pending = PendingOutcomes(services.database, sender_worker.name, RetryRules.of(services.settings))
        self._end = time.monotonic() + TIME_SLICE
        self._next_claim = self._paused_until = 0.0
        self._renewed_at = uptime()
        self._may_have_unknown_claims = False
        """A claim failed, but may have been committed."""
        self._claims_at_once = False
        """The last claim found only what is paused, or more messages are about to return."""
        self._returning = ReturningMessages(services.database)

    def send_first_batch(self) -> None:
        """Claims and sends before any recovery, because a client may wait for just this message."""
        if self._is_open():
            self._claim_and_dispatch()
            self._collect()

    def recover(self) -> None:
        """Recovers the rows of dead workers, and resolves those that have been uncertain for long enough."""
        seconds = RECOVERY_SECONDS if self._leased_ids else math.inf
        try:
            recover_expired_leases(self._services, self._sender_worker.leases, seconds=seconds)
            resolve_uncertain(self._services, seconds=seconds)
            self._returning.begin()
        except SQLAlchemyError as error:
            self._pause(error)

    def run(self) -> None:
        """Runs until everything is sent and written. Ends early, and leaves results to the journal, only when the
        process stops while the database fails."""
        self._next_claim = 0.0  # rows recovered since the first claim are due, too
        while self._step():
            if time.monotonic() > self._end + MAX_WAIT and self._may_extend():
                self._extend()
        if not (self._pending.results or self._pending.locked):
            self._sender_worker.clear_journal()

    def _may_extend(self) -> bool:
        """Whether to go on for another time slice. Not with leases that may have ended: recovery would take messages
        in flight here for those of a dead worker."""
        waits = self._services.stopping.is_set() or self._is_paused() or self._must_renew()
        return bool(self._dispatcher or self._pending.locked or self._may_have_unknown_claims) and not waits

    def _extend(self) -> None:
        """Begins another time slice, because one slow message must not delay all others. There may be one in flight at
        the end of each, so all is done that would otherwise be done between two drains."""
        self.recover()
        self._sender_worker.clear_journal(self._leased_ids)
        self._sender_worker.router.close_unused(self._dispatcher.pools_in_use)
        self._end = time.monotonic() + TIME_SLICE

    @property
    def _leased_ids(self) -> set[int]:
        """The recipients in flight, and those whose outcomes are not in the database."""
        return {*self._dispatcher.recipient_ids, *self._pending.all_ids}

    def _step(self) -> bool:
        """Collects, writes and claims once; returns whether there is more to do."""
        liveness.report()
        self._collect()
        if self._sender_worker.journal.is_broken:
            self._sender_worker.has_journal()
        self._withdraw()
        if self._must_write():
            self._write()
        if self._is_open() and time.monotonic() >= self._next_claim:
            self._claim_and_dispatch()
        stopping = self._services.stopping.is_set()
        if stopping and not self._dispatcher and (self._is_paused() or not (self._pending or self._must_write())):
            return False
        may_claim = (self._may_have_unknown_claims and not stopping) or (self._is_open() and self._claims_at_once)
        return bool(self._dispatcher or self._pending or self._pending.locked or may_claim)

    def _is_open(self) -> bool:
        """Whether rows may be claimed and dispatched."""
        is_over = self._services.stopping.is_set() or time.monotonic() > self._end
        return not (is_over or self._is_paused() or self._sender_worker.journal.is_broken)

    def _is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _pause(self, error: SQLAlchemyError) -> None:
        """Pauses for a database that is unavailable. Raises any other failure."""
        if not is_unavailable(error):
            raise error
        log_failure(logger, "sending waits", error)
        self._paused_until = time.monotonic() + DATABASE_RETRY_DELAY

    def _collect(self) -> None:
        if (self._is_paused() or self._pending.locked) and not self._dispatcher:
            self._services.stopping.wait(POLL_INTERVAL)
        self._pending.add(self._dispatcher.collect(POLL_INTERVAL))
        self._pending.postponed |= self._dispatcher.collect_postponed()

    def _withdraw(self) -> None:
        """Withdraws rows that have waited too long; all queued ones if nothing more may be sent."""
        if not self._is_open():
            self._pending.released += self._dispatcher.withdraw_all()
        elif withdrawn := self._dispatcher.withdraw(MAX_WAIT):
            self._pending.released += withdrawn
            self._sender_worker.batch_size.shrink()

    def _must_write(self) -> bool:
        if self._is_paused():
            return False
        pending = self._pending
        is_time = not self._dispatcher or time.monotonic() > pending.since + WRITE_AFTER
        has_results = pending.results and (is_time or len(pending.results) >= MAX_BATCH_SIZE)
        has_changes = pending.released or pending.postponed or pending.is_retry_due
        return bool(has_results or has_changes or self._must_renew())

    def _must_renew(self) -> bool:
        return bool(self._dispatcher or self._pending.locked) and uptime() > self._renewed_at + LEASE / 4

    def _write(self) -> None:
        """Writes results, released rows and leases. Those that fail are kept and written later."""
        renewing, began, ids = self._must_renew(), uptime(), self._pending.all_ids
        try:
            renewed = self._pending.write(self._leased_ids if renewing else ())
        except SQLAlchemyError as error:
            self._pause(error)
            return
        finally:
            if self._sender_worker.mirror:
                self._sender_worker.mirror.settle(ids - self._pending.all_ids)
        if renewing:
            self._renewed_at = began
            self._dispatcher.extend_leases(began + LEASE, renewed)

    def _claim_and_dispatch(self) -> None:
        """Claims the next batch when few rows are queued; a claim that finds nothing is not repeated at once."""
        batch_size, queued = self._sender_worker.batch_size, self._dispatcher.queued()
        if queued > batch_size.size // 4 or not self._sender_worker.has_journal():
            return
        free = self._sender_worker.pool.connections - (len(self._dispatcher) - queued)
        claimed = self._claim(max(batch_size.size, free))
        if claimed:
            self.has_claimed = True
            batch_size.record_claim(len(claimed))
            self._load_and_dispatch(claimed)
        elif not self._claims_at_once:
            self._next_claim = time.monotonic() + POLL_INTERVAL

    def _claim(self, size: int) -> list[ClaimedRecipient]:
        leased = self._leased_ids if self._may_have_unknown_claims else None
        self._claims_at_once = False
        try:
            self._returning.queue_slices(None if self._dispatcher else self._services.stopping)
            accepted, is_paused = claim_batch(self._services, self._sender_worker, size, leased)
        except SQLAlchemyError as error:
            self._may_have_unknown_claims = True
            self._sender_worker.due.clear()
            self._pause(error)
            return []
        self._may_have_unknown_claims = False
        self._claims_at_once = is_paused or self._returning.has_left
        return accepted

    def _load_and_dispatch(self, claimed: list[ClaimedRecipient]) -> None:
        """Dispatches the recipients to send to; the others are skipped, deferred, or beyond the memory budget."""
        services, router = self._services, self._sender_worker.router
        try:
            with services.database.read() as session:
                loaded = within_budget(session, claimed)
                recipients = load(session, loaded, services.settings)
                router.update(session, recipients)
                limits = self._sender_worker.builder.limits
                circumstances = load_circumstances(session, services, router, limits, recipients)
        except Exception as error:
            self._after_failed_load(claimed, error)
            return
        self._pending.released += [recipient.id for recipient in claimed[len(loaded) :]]
        self._pending.add([not_sent(recipient) for recipient in recipients if recipient.skip])
        remaining = [recipient for recipient in recipients if not recipient.skip]
        for reason, find in CHECKS_OF_LOADED.items():
            try:
                waits = find(circumstances, remaining)
            except SQLAlchemyError as error:
                self._pause(error)  # the database has gone meanwhile: one attempt is made
                continue
            if waits:
                self._put_off(reason, [recipient for recipient in remaining if recipient.id in waits], waits)
                remaining = [recipient for recipient in remaining if recipient.id not in waits]
        self._dispatcher.enqueue(remaining)

    def _put_off(self, reason: WaitReason, recipients: list[ClaimedRecipient], waits: Waits) -> None:
        """Ends their attempts as deferrals, or puts them off without one; those of captured messages do not count."""
        results: list[AttemptResult] = []
        for recipient in recipients:
            wait = waits[recipient.id]
            if isinstance(wait, datetime):
                self._pending.postponed[recipient.id] = wait
            else:
                results.append(deferred(recipient, wait))
        self._pending.add(results)
        if not results:
            count_deferred([recipient for recipient in recipients if not recipient.compiled.send.is_test], reason)

    def _after_failed_load(self, claimed: list[ClaimedRecipient], error: Exception) -> None:
        """Defers only the row that cannot be read; it is found by halving the batch."""
        if isinstance(error, SQLAlchemyError) and is_unavailable(error):
            self._pending.released += [recipient.id for recipient in claimed]
            self._pause(error)
        elif len(claimed) > 1:
            half = len(claimed) // 2
            self._load_and_dispatch(claimed[:half])
            self._load_and_dispatch(claimed[half:])
        else:
            (failed,) = claimed
            logger.error("cannot load a batch", exc_info=error, extra={"uuid": failed.uuid})
            address = failed.email or failed.mobile
            self._pending.add([AttemptResult(failed.id, failed.attempts, address, now(), internal_fault(error))])
