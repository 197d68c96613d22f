"""Requeueing a recipient whose message did not arrive: an operator's decision, once the cause is gone.

Recipients that are `bounced` or `failed` can be retried, and `uncertain` ones without the wait. A queued recipient is
attempted anyway, and a message that was sent would arrive twice.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, insert, select

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress, email_key
from app.clock import now, timestamp
from app.db.address_digests import find_digests
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import BlockedAddress, QueueEntry, Recipient, RecipientStep, Send
from app.errors import ServiceError
from app.recipients.forgotten import is_forgotten
from app.recipients.read import find_recipient
from app.recipients.reasons import NOT_RETRYABLE
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps, lock_queue_entry
from app.recipients.timeline import TimelineStep

COUNTERS = {
    RecipientState.BOUNCED: "bounced",
    RecipientState.FAILED: "failed_contacts",
    RecipientState.UNCERTAIN: None,
}
"""State that can be retried -> the counter of the group that counts it, if any does."""


def requeue(transaction: Transaction, uuid: str) -> Recipient:
    """Puts a bounced, failed or uncertain recipient back into the queue, due now; a failure no longer counts.

    Raises `ServiceError`: `invalid_id` for an unknown uuid, `conflict` for one that cannot be retried.
    """
    purged = _lock_content(transaction, uuid)
    statement = select(Recipient).where(Recipient.uuid == uuid.lower()).with_for_update(key_share=True)
    recipient = transaction.scalars(statement).first() or find_recipient(transaction, uuid)
    entry = lock_queue_entry(transaction, recipient.id)
    state = RecipientState(entry.state if entry else recipient.state)
    _check(transaction, recipient, state)
    if purged is not None:
        detail = f"its content was purged at {timestamp(purged)} (RETAIN_CONTENT); make a new send"
        raise ServiceError("conflict", field="uuid", detail=detail)
    if entry is None and None in recipient.values.values():
        detail = "its secret values were deleted with its outcome; make a new send"
        raise ServiceError("conflict", field="uuid", detail=detail)
    moment = now()
    counter = COUNTERS[state]
    if counter is not None:
        failed_time = _failed_time(transaction, recipient) or moment
        count_in_group(transaction, recipient.account_id, recipient.group_id, failed_time, **{counter: -1})
    detail = f"was {state}: {recipient.reason or 'no reason known'}"
    add_steps(transaction, [step_row(recipient.account_id, recipient.id, TimelineStep.REQUEUED, detail, moment)])
    if entry:
        entry.state, entry.due_time, entry.ready_time = RecipientState.QUEUED, moment, moment
    else:
        _enter_queue(transaction, recipient, moment)
    recipient.state, recipient.reason, recipient.sent_time = RecipientState.QUEUED, None, None
    transaction.flush()
    return recipient


def _lock_content(transaction: Transaction, uuid: str) -> datetime | None:
    """Keeps the content of the recipient's send from being purged; returns when it was, if it was. The send is locked
    before its recipients, as when purging."""
    send_id = select(Recipient.send_id).where(Recipient.uuid == uuid.lower()).scalar_subquery()
    statement = select(Send.content_purged_time).where(Send.id == send_id)
    return transaction.scalar(statement.with_for_update(read=True))


def _enter_queue(transaction: Transaction, recipient: Recipient, moment: datetime) -> None:
    """The count of attempts continues: it distinguishes results in journals."""
    values = {
        "recipient_id": recipient.id,
        "account_id": recipient.account_id,
        "type": recipient.type,
        "priority": select(Send.priority).where(Send.id == recipient.send_id).scalar_subquery(),
        "state": RecipientState.QUEUED,
        "due_time": moment,
        "ready_time": moment,
        "attempts": recipient.attempts,
    }
    transaction.execute(insert(QueueEntry).values(values))


def _failed_time(transaction: Transaction, recipient: Recipient) -> datetime | None:
    """When the recipient bounced or failed: it is subtracted from that hour."""
    statement = select(func.max(RecipientStep.time)).where(
        RecipientStep.recipient_id == recipient.id, RecipientStep.step.in_((TimelineStep.BOUNCED, TimelineStep.FAILED))
    )
    return transaction.scalar(statement)


def _check(transaction: Transaction, recipient: Recipient, state: RecipientState) -> None:
    if state not in COUNTERS:
        detail = f"is {state}; only a bounced, failed or uncertain recipient can be retried"
        raise ServiceError("conflict", field="uuid", detail=detail)
    if is_forgotten(transaction, recipient.id):
        raise ServiceError("conflict", field="uuid", detail="its recipient was forgotten; there is nobody to send to")
    if recipient.reason in NOT_RETRYABLE:
        raise ServiceError("conflict", field="uuid", detail=f"failed with {recipient.reason}; a retry cannot help")
    address = email_key(recipient.email) if recipient.email else recipient.mobile
    key = AccountAddress.of(recipient.account_id, ADDRESS_KIND_BY_TYPE[recipient.type], address or "")
    blocked = select(BlockedAddress.id).where(
        BlockedAddress.account_id == recipient.account_id,
        BlockedAddress.address.in_([key.key, *find_digests(transaction, [key])]),
    )
    if transaction.scalar(blocked) is not None:
        raise ServiceError("conflict", field="uuid", detail=f"{address} is blocked; unblock it first")
