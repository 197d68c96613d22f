"""Messages that may have arrived: the connection was lost after the whole message was sent and before the answer.

Such a recipient is `uncertain` until the `due_time` of its queue entry (UNCERTAIN_WAIT). Meanwhile a DSN may report a
bounce, or the recipient may open the message. Then it is resolved: one with a sign of arrival counts as delivered, any
other is requeued with the same Message-ID, by which mail servers and programs recognize a second copy.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, exists, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.id_bounds import between_ids
from app.db.in_json import in_json
from app.db.models import QueueEntry, Recipient, RecipientStep
from app.recipients.conditions import entry_in_state
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps, update_queue_entries
from app.recipients.timeline import SIGNS_OF_ARRIVAL, TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult

logger = logging.getLogger(__name__)

IS_UNCERTAIN = entry_in_state(RecipientState.UNCERTAIN)
BATCH_SIZE = 500
"""Rows of one transaction."""
RESOLVER = "resolving uncertain messages"
"""The worker of an entry while the arrival is written."""
NO_SIGN = "no sign that it arrived; sent again with its Message-ID"


def has_uncertain_due(session: Session) -> bool:
    """Whether any recipient has been uncertain for long enough."""
    return bool(session.scalar(select(exists().where(IS_UNCERTAIN, QueueEntry.due_time <= now()))))


def resolve_uncertain(services: Services) -> None:
    """Resolves all recipients that have been uncertain for long enough."""
    with services.database.read() as session:
        has_more = has_uncertain_due(session)
    while has_more:
        with services.database.write() as transaction:
            rows = _due_rows(transaction)
            signs = signs_of_arrival(transaction, [row.id for row in rows])
            _write_arrived(transaction, services, [row for row in rows if row.id in signs], signs)
            _requeue(transaction, [row for row in rows if row.id not in signs])
        if rows:
            logger.warning("resolved uncertain messages", extra={"recipients": len(rows), "arrived": len(signs)})
        has_more = len(rows) == BATCH_SIZE


def _due_rows(transaction: Transaction) -> Sequence[Row[*tuple[Any, ...]]]:
    """The due rows, locked: as everywhere, recipients before their entries."""
    statement = (
        select(Recipient.id, Recipient.account_id, QueueEntry.attempts, Recipient.email)
        .join(QueueEntry, QueueEntry.recipient_id == Recipient.id)
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
    found = session.execute(steps).all()
    return {row.recipient_id: row.step for row in sorted(found, key=lambda row: row.step == TimelineStep.ACKNOWLEDGED)}


def _write_arrived(
    transaction: Transaction, services: Services, rows: Sequence[Row[*tuple[Any, ...]]], signs: dict[int, str]
) -> None:
    if not rows:
        return
    update_queue_entries(transaction, [row.id for row in rows], state=RecipientState.SENDING, worker=RESOLVER)
    accepted = {row.id: DeliveryResult.accepted(f"no answer, but it has arrived: {signs[row.id]}") for row in rows}
    results = [AttemptResult(row.id, row.attempts, row.email, now(), accepted[row.id]) for row in rows]
    write_outcomes(transaction, RESOLVER, results, RetryRules.of(services.settings))


def _requeue(transaction: Transaction, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
    if not rows:
        return
    moment = now()
    ids = [row.id for row in rows]
    update_queue_entries(transaction, ids, state=RecipientState.QUEUED, due_time=moment, ready_time=moment)
    add_steps(transaction, [step_row(row.account_id, row.id, TimelineStep.REQUEUED, NO_SIGN, moment) for row in rows])
