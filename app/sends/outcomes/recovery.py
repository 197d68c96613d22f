"""Recipients whose worker is gone, or whose answer was lost: finding them, and writing what is known of them."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from redis.exceptions import RedisError
from sqlalchemy import ColumnElement, Row, and_, exists, or_, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.due import FULL_SHARE, FullLooks
from app.db.expressions import between_ids, in_json
from app.db.models import QueueEntry, Recipient, RecipientStep, Send
from app.infrastructure.metrics import LEASES_RECOVERED
from app.recipients.conditions import CURRENT_ADDRESS, IS_OF_TEST_ACCOUNT, IS_SENDING, entry_in_state
from app.recipients.row import BEGIN_TIME, add_steps, step_row, update_queue_entries
from app.recipients.states import RecipientState
from app.recipients.timeline import SIGNS_OF_ARRIVAL, TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult, FoundJournal, journal_folder, scan_journals
from app.sends.outcomes.mirror import delete_blocks, read_mirror
from app.sends.outcomes.settle import settle
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_bisecting
from app.sends.queue_begin import BEGINNING
from app.services import Services
from app.transports.base import DeliveryResult

logger = logging.getLogger(__name__)


QUIET_SECONDS = 60.0


class ExpiredLeases:
    """The search for expired leases. Each process that looks for them has one, which one thread at a time uses."""

    def __init__(self, full_share: float = FULL_SHARE) -> None:
        self._full_looks = FullLooks(full_share)
        self._complained = -QUIET_SECONDS
        self.begin = BEGINNING
        """No lease that still stands ends before it."""

    def may_complain(self) -> bool:
        """Whether trouble with journals is to be logged: not at each look, of which there are two in a second."""
        moment = time.monotonic()
        if moment < self._complained + QUIET_SECONDS:
            return False
        self._complained = moment
        return True

    def workers(self, session: Session) -> set[str]:
        """The workers whose leases have expired."""
        moment, began = now(), time.monotonic()
        is_full = self._full_looks.is_due()
        statement = (
            select(QueueEntry.worker).distinct().where(_is_expired(BEGINNING if is_full else self.begin, moment))
        )
        workers = {worker for worker in session.scalars(statement) if worker}
        if is_full:
            self._full_looks.note(began)
        if not workers:
            self.begin = moment
        return workers


def _is_expired(since: datetime, moment: datetime) -> ColumnElement[bool]:
    return and_(IS_SENDING, QueueEntry.lease_time >= since, QueueEntry.lease_time < moment)


BATCH_SIZE = 500
"""Rows of one transaction."""


def recover_expired_leases(
    services: Services, leases: ExpiredLeases | None = None, *, seconds: float = math.inf
) -> None:
    """Takes over the rows of dead workers. Journals and mirrors come first: messages that they record as sent are not
    sent again. So the rows of a worker whose journal cannot be read wait until it can, or is removed; if the folder of
    the journals cannot be read, all wait. Those of a worker without a journal here wait for Redis, with its mirror, for
    the time of another lease. `leases` is the process's memory between its looks. What is left after `seconds` waits
    for the next call."""
    leases = leases or ExpiredLeases()
    try:
        with scan_journals(journal_folder(services.settings)) as journals:
            _recover(services, leases, journals, seconds)
    except OSError as error:
        _complain(leases, "the journals of this machine cannot be read or removed", error)


def _recover(services: Services, leases: ExpiredLeases, journals: list[FoundJournal], seconds: float) -> None:
    """Marks those journals as unreadable in the list that turn out to be, and as alive all that are still needed."""
    with services.database.read() as session:
        expired = leases.workers(session)
    for place, journal in enumerate(journals):
        if journal.dead or journal.worker in expired:
            try:
                if not _replay(services, journal.worker, journal.results()):
                    journals[place] = replace(journal, dead=False, unreadable=True)
            except OSError as error:
                journals[place] = replace(journal, dead=False, unreadable=True)
                _complain(leases, "a journal cannot be read, and messages of its worker wait for it", error)
    dead = {journal.worker for journal in journals if journal.dead}
    unreadable = {journal.worker for journal in journals if journal.unreadable}
    expired -= unreadable
    unmirrored, locked = _replay_mirrors(services, leases, dead | expired)
    unmirrored -= {journal.worker for journal in journals}
    dead, expired = dead - locked, expired - locked
    if (dead or expired) and not _requeue_all(services, dead, expired - unmirrored, unmirrored, seconds):
        journals[:] = [replace(journal, dead=False) for journal in journals]


def _complain(leases: ExpiredLeases, what: str, error: Exception) -> None:
    if leases.may_complain():
        logger.error("%s: %s", what, error)


def _replay_mirrors(services: Services, leases: ExpiredLeases, workers: Collection[str]) -> tuple[set[str], set[str]]:
    """Writes what is mirrored of these workers' results; returns the workers whose mirrors Redis did not give, and
    those with results that have to wait for locked rows. What a mirror has of a worker of this machine is missing in
    its journal if the power failed, or the disk was full."""
    if not services.database.is_server:
        return set(), set()
    unmirrored, locked = set(workers), set[str]()
    for worker in workers:
        if services.redis_breaker.is_open:
            break
        try:
            mirrored = read_mirror(services.redis, services.settings.secret_keys, worker)
        except RedisError as error:
            services.redis_breaker.open()
            _complain(leases, "what dead workers have mirrored cannot be read in Redis", error)
            break
        unmirrored.remove(worker)
        if not _replay(services, worker, mirrored.results):
            locked.add(worker)
        elif mirrored.fields:
            delete_blocks(services.redis, worker, mirrored.fields)
    return unmirrored, locked


def _replay(services: Services, worker: str, recorded: Iterable[AttemptResult]) -> bool:
    """Returns False if other transactions have locked any of the rows: nobody may send those messages again."""
    is_complete = True
    rules = RetryRules.of(services.settings)
    results = iter(recorded)
    while batch := list(itertools.islice(results, BATCH_SIZE)):
        recovered = 0
        while batch:
            written = write_bisecting(services.database, worker, batch, rules)
            recovered += written.number
            if written.left and not written.number:
                is_complete = False
                break
            batch = written.left  # those that were not tried come first
        if recovered:
            LEASES_RECOVERED.labels("recipients").inc(recovered)
            logger.warning("recovered the results of a dead worker", extra={"recipients": recovered})
    return is_complete


def _requeue_all(
    services: Services, dead: Collection[str], expired: Collection[str], unmirrored: Collection[str], seconds: float
) -> bool:
    """Requeues their entries in batches, none of which begins after `seconds`; returns whether none is left."""
    end = time.monotonic() + seconds
    while requeued := _requeue_batch(services, dead, expired, unmirrored):
        LEASES_RECOVERED.labels("recipients").inc(requeued)
        logger.warning("requeued rows of a dead worker", extra={"recipients": requeued})
        if time.monotonic() >= end:
            return False
    return True


MIRROR_PATIENCE = timedelta(seconds=90)
"""For how long after their leases the rows of a worker wait for a Redis that does not answer: as long as a lease."""


def _requeue_batch(
    services: Services, dead: Collection[str], expired: Collection[str], unmirrored: Collection[str]
) -> int:
    """Requeues entries of dead workers, and those of others whose leases have run out, due now; returns their number.

    The count of attempts is kept: it distinguishes a late result of the dead worker from one of the next attempt.
    """
    is_abandoned = or_(
        QueueEntry.worker.in_(dead),
        and_(QueueEntry.worker.in_(expired), QueueEntry.lease_time < now()),
        and_(QueueEntry.worker.in_(unmirrored), QueueEntry.lease_time < now() - MIRROR_PATIENCE),
    )
    abandoned = select(QueueEntry.recipient_id, QueueEntry.account_id).where(IS_SENDING, is_abandoned)
    oldest = abandoned.order_by(QueueEntry.recipient_id)
    with services.database.write() as transaction:
        rows = transaction.execute(oldest.limit(BATCH_SIZE).with_for_update(skip_locked=True)).all()
        if rows:
            moment, ids = now(), [row.recipient_id for row in rows]
            times = {"due_time": moment, "ready_time": moment, "lease_time": None}
            update_queue_entries(transaction, ids, state=RecipientState.QUEUED, worker=None, **times)
            detail = "the worker that held it is gone"
            add_steps(
                transaction,
                [step_row(row.account_id, row.recipient_id, TimelineStep.RECOVERED, detail, moment) for row in rows],
            )
    return len(rows)


IS_UNCERTAIN = entry_in_state(RecipientState.UNCERTAIN)
RESOLVER = "resolving uncertain messages"
"""The worker of an entry while the outcome is written."""
_LAST_TRANSPORT = (
    select(RecipientStep.transport)
    .where(RecipientStep.recipient_id == Recipient.id, RecipientStep.step == TimelineStep.UNCERTAIN)
    .order_by(RecipientStep.id.desc())
    .limit(1)
    .scalar_subquery()
)
DUE_COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.account_id, QueueEntry.attempts, BEGIN_TIME.label("begin_time")),
    *(CURRENT_ADDRESS.label("address"), IS_OF_TEST_ACCOUNT.label("is_test"), _LAST_TRANSPORT.label("transport")),
)
NO_ARRIVAL_DETAIL = "no sign that it arrived; sent again with its Message-ID"
UNANSWERED = DeliveryResult.deferred(
    "no answer and no sign of arrival by the end of the retry period; it may still have arrived", "4.4.7"
)
"""What ends a message that may have arrived, once its retry period is over: it cannot be sent again and again."""


def has_uncertain_due(session: Session) -> bool:
    """Whether any recipient has been uncertain for long enough."""
    return bool(session.scalar(select(exists().where(IS_UNCERTAIN, QueueEntry.due_time <= now()))))


def resolve_uncertain(services: Services, *, seconds: float = math.inf) -> None:
    """Resolves the recipients that have been uncertain for long enough. What is left after `seconds` waits for the
    next call."""
    end = time.monotonic() + seconds
    with services.database.read() as session:
        has_more = has_uncertain_due(session)
    while has_more:
        with services.database.write() as transaction:
            rows = _due_rows(transaction)
            signs = signs_of_arrival(transaction, [row.id for row in rows])
            ended = _write_ends(transaction, services, rows, signs)
            _requeue(transaction, [row for row in rows if row.id not in ended])
        if rows:
            numbers = {"recipients": len(rows), "arrived": len(signs), "given_up": len(ended) - len(signs)}
            logger.warning("resolved uncertain messages", extra=numbers)
        has_more = len(rows) == BATCH_SIZE and time.monotonic() < end


def _due_rows(transaction: Transaction) -> Sequence[Row[*tuple[Any, ...]]]:
    """The due rows, locked: as everywhere, recipients before their entries."""
    statement = (
        select(*DUE_COLUMNS)
        .join(QueueEntry, QueueEntry.recipient_id == Recipient.id)
        .join(Send, Send.id == Recipient.send_id)
        .where(IS_UNCERTAIN, QueueEntry.due_time <= now())
        .order_by(QueueEntry.due_time)
        .limit(BATCH_SIZE)
        .with_for_update(skip_locked=True, key_share=True, of=[Recipient, QueueEntry])
    )
    return transaction.execute(statement).all()


def signs_of_arrival(session: Session, ids: Collection[int]) -> dict[int, str]:
    """A sign of arrival of each recipient that has one; a receipt comes before any other."""
    steps = select(RecipientStep.recipient_id, RecipientStep.step)
    signs = *SIGNS_OF_ARRIVAL, TimelineStep.ACKNOWLEDGED
    steps = steps.where(in_json(RecipientStep.recipient_id, ids), between_ids(RecipientStep.recipient_id, ids))
    steps = steps.where(RecipientStep.step.in_(signs))
    step_rows = session.execute(steps).all()
    return {
        row.recipient_id: row.step for row in sorted(step_rows, key=lambda row: row.step == TimelineStep.ACKNOWLEDGED)
    }


def _write_ends(
    transaction: Transaction, services: Services, rows: Sequence[Row[*tuple[Any, ...]]], signs: dict[int, str]
) -> Collection[int]:
    """Ends the messages that have arrived, and those whose retry period is over; returns their ids."""
    rules, moment = RetryRules.of(services.settings), now()
    answers = {row.id: UNANSWERED for row in rows if moment >= rules.end(row.begin_time)}
    for recipient_id, sign in signs.items():
        answers[recipient_id] = DeliveryResult.accepted(f"no answer, but it has arrived: {sign}")
    results = [
        AttemptResult(
            *(row.id, row.attempts, row.address, moment, answers[row.id]), transport=row.transport, is_test=row.is_test
        )
        for row in rows
        if row.id in answers
    ]
    settle(transaction, RESOLVER, results, rules)
    return answers.keys()


def _requeue(transaction: Transaction, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
    if not rows:
        return
    moment = now()
    ids = [row.id for row in rows]
    update_queue_entries(transaction, ids, state=RecipientState.QUEUED, due_time=moment, ready_time=moment)
    add_steps(
        transaction,
        [step_row(row.account_id, row.id, TimelineStep.REQUEUED, NO_ARRIVAL_DETAIL, moment) for row in rows],
    )
