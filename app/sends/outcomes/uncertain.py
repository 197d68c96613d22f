"""Messages that may have arrived: the connection was lost after the whole message was sent and before the answer.

Such a recipient is `uncertain` until its `due_time` (UNCERTAIN_WAIT). Meanwhile a report may tell that it bounced, or
the recipient may open it. Then it is looked into: what shows a sign of arrival counts as delivered, all else is queued
again, with the same Message-ID, by which mail servers and programs know a second copy.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, exists, select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import Recipient, RecipientStep
from app.recipients.conditions import in_state
from app.recipients.states import RecipientState
from app.recipients.timeline import SIGNS_OF_ARRIVAL, TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult

logger = logging.getLogger(__name__)

IS_UNCERTAIN = in_state(RecipientState.UNCERTAIN)
AT_ONCE = 500
"""Rows of one transaction."""
LOOKING = "looking into uncertain ones"
"""Who holds a row for the moment in which its arrival is written."""


def has_uncertain_due(session: Session) -> bool:
    """Whether any recipient has been uncertain for long enough."""
    return bool(session.scalar(select(exists().where(IS_UNCERTAIN, Recipient.due_time <= now()))))


def resolve_uncertain(services: Services) -> None:
    """Decides about all that have been uncertain for long enough."""
    with services.database.read() as session:
        waiting = has_uncertain_due(session)
    while waiting:
        with services.database.write() as transaction:
            rows = _ripe(transaction)
            arrived = _signs(transaction, [row.id for row in rows])
            _settle(transaction, services, [row for row in rows if row.id in arrived], arrived)
            _queue_again(transaction, [row for row in rows if row.id not in arrived])
        if rows:
            logger.warning("looked into uncertain messages", extra={"recipients": len(rows), "arrived": len(arrived)})
        waiting = len(rows) == AT_ONCE


def _ripe(transaction: Transaction) -> Sequence[Row[*tuple[Any, ...]]]:
    statement = (
        select(Recipient.id, Recipient.account_id, Recipient.attempts, Recipient.email)
        .where(IS_UNCERTAIN, Recipient.due_time <= now())
        .order_by(Recipient.due_time)
        .limit(AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    return transaction.execute(statement).all()


def _signs(transaction: Transaction, ids: Collection[int]) -> dict[int, str]:
    """The sign of arrival of each that has one."""
    steps = select(RecipientStep.recipient_id, RecipientStep.step)
    steps = steps.where(RecipientStep.recipient_id.in_(ids), RecipientStep.step.in_(SIGNS_OF_ARRIVAL))
    return {row.recipient_id: row.step for row in transaction.execute(steps)}


def _settle(
    transaction: Transaction, services: Services, rows: Sequence[Row[*tuple[Any, ...]]], signs: dict[int, str]
) -> None:
    if not rows:
        return
    _change(transaction, rows, state=RecipientState.SENDING, worker=LOOKING)
    results = {row.id: DeliveryResult.accepted(f"no answer, but it has arrived: {signs[row.id]}") for row in rows}
    verdicts = [AttemptResult(row.id, row.attempts, row.email, now(), results[row.id]) for row in rows]
    write_outcomes(transaction, LOOKING, verdicts, RetryRules.of(services.settings))


def _queue_again(transaction: Transaction, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
    if not rows:
        return
    moment = now()
    _change(transaction, rows, state=RecipientState.QUEUED, due_time=moment)
    step = {
        "time": moment,
        "step": TimelineStep.REQUEUED,
        "detail": "no sign that it arrived; sent again with its Message-ID",
    }
    insert_rows(
        transaction, RecipientStep, [{"recipient_id": row.id, "account_id": row.account_id, **step} for row in rows]
    )


def _change(transaction: Transaction, rows: Sequence[Row[*tuple[Any, ...]]], **values: Any) -> None:
    statement = update(Recipient).where(Recipient.id.in_([row.id for row in rows])).values(**values)
    transaction.execute(statement, execution_options={"synchronize_session": False})
