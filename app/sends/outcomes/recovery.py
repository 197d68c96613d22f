"""Recovery: what a worker held that is no more is either settled by its journal or queued again.

A worker of this machine that died is known at once, by the lock on its journal that the system took away. Of a worker
on another machine only the end of its lease tells. Its journal cannot be read from here: it settles by it itself when
it comes back before that, and otherwise what it sent in its last moment is sent again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import Recipient, RecipientStep
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.delivery.claim import IS_SENDING
from app.sends.outcomes.journal import FoundJournal, journal_folder, scan_journals
from app.sends.outcomes.pending_outcomes import write_bisecting
from app.sends.outcomes.transitions import RetryRules
from app.services import Services

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Rows of one transaction."""


def recover_expired_leases(services: Services) -> None:
    """Takes over what dead workers held. Journals come first: what they say was sent is not sent again."""
    with scan_journals(journal_folder(services.settings)) as journals:
        with services.database.read() as session:
            expired = _expired_workers(session)
        for journal in journals:
            if journal.dead or journal.worker in expired:
                _replay(services, journal)
        dead = {journal.worker for journal in journals if journal.dead}
        if dead or expired:
            _requeue_all(services, dead)


def _expired_workers(session: Session) -> set[str]:
    statement = select(Recipient.worker).distinct().where(IS_SENDING, Recipient.lease_time < now())
    return {worker for worker in session.scalars(statement) if worker}


def _replay(services: Services, journal: FoundJournal) -> None:
    rules = RetryRules.of(services.settings)
    verdicts = iter(journal.verdicts())
    while some := list(itertools.islice(verdicts, AT_ONCE)):
        settled = write_bisecting(services.database, journal.worker, some, rules)
        if settled:
            logger.warning("settled by the journal of a dead worker", extra={"recipients": settled})


def _requeue_all(services: Services, dead: Collection[str]) -> None:
    while recovered := _requeue_some(services, dead):
        logger.warning("queued again what a dead worker held", extra={"recipients": recovered})


def _requeue_some(services: Services, dead: Collection[str]) -> int:
    """Puts rows of dead workers, and rows whose lease has run out, back into the queue, due now; tells how many."""
    given_up = or_(Recipient.worker.in_(dead), Recipient.lease_time < now())
    oldest = (
        select(Recipient.id, Recipient.account_id).where(IS_SENDING, given_up).order_by(Recipient.id).limit(AT_ONCE)
    )
    with services.database.write() as transaction:
        rows = transaction.execute(oldest.with_for_update(skip_locked=True)).all()
        if rows:
            _requeue(transaction, [row.id for row in rows])
            step = {"time": now(), "step": TimelineStep.RECOVERED, "detail": "the worker that held it is gone"}
            steps = [{"recipient_id": row.id, "account_id": row.account_id, **step} for row in rows]
            insert_rows(transaction, RecipientStep, steps)
    return len(rows)


def _requeue(transaction: Transaction, ids: Collection[int]) -> None:
    """The count of tries stays: that there was another try tells its verdict from this one's."""
    statement = (
        update(Recipient)
        .where(Recipient.id.in_(ids))
        .values(state=RecipientState.QUEUED, due_time=now(), worker=None, lease_time=None)
    )
    transaction.execute(statement, execution_options={"synchronize_session": False})
