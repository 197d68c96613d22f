"""Recovery of the recipients that a dead worker had leased: they are written according to its journal, or requeued.

A dead worker of this machine is detected at once, because the system has released the lock on its journal. A dead
worker of another machine is detected only by the end of its lease. Its journal cannot be read from here: it writes the
results itself if it is restarted before that, and otherwise what it sent in its last moment is sent again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import and_, or_, select

from app.clock import now
from app.db.models import QueueEntry
from app.infrastructure.metrics import LEASES_RECOVERED
from app.recipients.conditions import IS_SENDING
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps, update_queue_entries
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.bisecting import write_bisecting
from app.sends.outcomes.expired_leases import ExpiredLeases
from app.sends.outcomes.journal import FoundJournal, journal_folder, scan_journals
from app.sends.outcomes.transitions import RetryRules
from app.services import Services

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
"""Rows of one transaction."""


def recover_expired_leases(services: Services, leases: ExpiredLeases | None = None) -> None:
    """Takes over the rows of dead workers. Journals come first: messages that they record as sent are not sent again.
    So the rows of a worker whose journal cannot be read wait until it can, or is removed; if the folder of the journals
    cannot be read, all wait. `leases` is the process's memory between its looks."""
    leases = leases or ExpiredLeases()
    try:
        with scan_journals(journal_folder(services.settings)) as journals:
            _recover(services, leases, journals)
    except OSError as error:
        _complain(leases, "the journals of this machine cannot be read or removed", error)


def _recover(services: Services, leases: ExpiredLeases, journals: list[FoundJournal]) -> None:
    """Marks those journals as unreadable in the list that turn out to be."""
    with services.database.read() as session:
        expired = leases.workers(session)
    for place, journal in enumerate(journals):
        if journal.dead or journal.worker in expired:
            try:
                _replay(services, journal)
            except OSError as error:
                journals[place] = replace(journal, dead=False, unreadable=True)
                _complain(leases, "a journal cannot be read, and messages of its worker wait for it", error)
    dead = {journal.worker for journal in journals if journal.dead}
    unreadable = {journal.worker for journal in journals if journal.unreadable}
    if dead or expired - unreadable:
        _requeue_all(services, dead, unreadable)


def _complain(leases: ExpiredLeases, what: str, error: OSError) -> None:
    if leases.may_complain():
        logger.error("%s: %s", what, error)


def _replay(services: Services, journal: FoundJournal) -> None:
    rules = RetryRules.of(services.settings)
    results = iter(journal.results())
    while batch := list(itertools.islice(results, BATCH_SIZE)):
        written = write_bisecting(services.database, journal.worker, batch, rules)
        if written:
            LEASES_RECOVERED.labels("recipients").inc(written)
            logger.warning("recovered from the journal of a dead worker", extra={"recipients": written})


def _requeue_all(services: Services, dead: Collection[str], unreadable: Collection[str]) -> None:
    while requeued := _requeue_batch(services, dead, unreadable):
        LEASES_RECOVERED.labels("recipients").inc(requeued)
        logger.warning("requeued rows of a dead worker", extra={"recipients": requeued})


def _requeue_batch(services: Services, dead: Collection[str], unreadable: Collection[str]) -> int:
    """Requeues entries of dead workers, and those whose lease has run out, due now; returns their number. Not those of
    workers whose journals cannot be read.

    The count of attempts is kept: it distinguishes a late result of the dead worker from one of the next attempt.
    """
    is_abandoned = or_(QueueEntry.worker.in_(dead), QueueEntry.lease_time < now())
    if unreadable:
        is_abandoned = and_(is_abandoned, QueueEntry.worker.not_in(unreadable))
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
