"""Requeueing a recipient whose message did not arrive: an operator's decision, once the cause is gone.

A final failure can be retried, `bounced` and `failed`, and what is `uncertain`, without the wait. A queued recipient is
attempted by itself, and a message that was sent would arrive twice.
"""

from __future__ import annotations

from sqlalchemy import select, update

from app.addresses import email_key
from app.clock import now
from app.db.database import Transaction
from app.db.models import BlockedAddress, Group, Recipient
from app.errors import ServiceError
from app.recipients.read import find_recipient
from app.recipients.reasons import NOT_RETRYABLE
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps
from app.recipients.timeline import TimelineStep

COUNTERS = {
    RecipientState.BOUNCED: Group.bounced,
    RecipientState.FAILED: Group.failed_contacts,
    RecipientState.UNCERTAIN: None,
}
"""State that can be retried -> the counter of the group that counts it, if any does."""


def requeue(transaction: Transaction, uuid: str) -> Recipient:
    """Puts a bounced, failed or uncertain recipient back into the queue, due now; a failure no longer counts.

    Raises `ServiceError`: `invalid_id` for an unknown uuid, `conflict` for one that cannot be retried.
    """
    statement = select(Recipient).where(Recipient.uuid == uuid.lower()).with_for_update()
    recipient = transaction.scalars(statement).first() or find_recipient(transaction, uuid)
    _check(transaction, recipient)
    counter = COUNTERS[RecipientState(recipient.state)]
    if counter is not None:
        fewer = update(Group).where(Group.id == recipient.group_id, counter > 0).values({counter: counter - 1})
        transaction.execute(fewer)
    moment = now()
    detail = f"was {recipient.state}: {recipient.reason or 'no reason known'}"
    add_steps(transaction, [step_row(recipient.account_id, recipient.id, TimelineStep.REQUEUED, detail, moment)])
    # The count of attempts goes on: results in journals are told apart by it.
    recipient.state, recipient.reason, recipient.due_time, recipient.sent_time = (
        RecipientState.QUEUED,
        None,
        moment,
        None,
    )
    transaction.flush()
    return recipient


def _check(transaction: Transaction, recipient: Recipient) -> None:
    if recipient.state not in COUNTERS:
        detail = f"is {recipient.state}; only a bounced, failed or uncertain recipient can be retried"
        raise ServiceError("conflict", field="uuid", detail=detail)
    if recipient.reason in NOT_RETRYABLE:
        raise ServiceError("conflict", field="uuid", detail=f"failed with {recipient.reason}; a retry cannot help")
    address = email_key(recipient.email) if recipient.email else recipient.mobile
    blocked = select(BlockedAddress.id).where(
        BlockedAddress.account_id == recipient.account_id, BlockedAddress.address == address
    )
    if transaction.scalar(blocked) is not None:
        raise ServiceError("conflict", field="uuid", detail=f"{address} is blocked; unblock it first")
