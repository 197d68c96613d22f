"""Evidence that a message has arrived, although no answer had said so: the receipt of a text message, the report of a
mail server, or the event of a relay.

    waits for another attempt     ends as sent, and is not sent again: event `sent`, delivered + 1
    failed                        the same; failed_contacts - 1, in the hour in which it was counted
    held after a restore          noted in its timeline by the caller; it counts when it is released
"""

from __future__ import annotations

from collections.abc import Sequence

from app.clock import now
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.events.outbox import record_many
from app.recipients.row import RecipientRow, has_step, update_recipients
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.bounce_blocking import forget_soft_bounces
from app.sends.outcomes.requeue import failed_times
from app.sends.outcomes.transitions import sent_transition
from app.sends.outcomes.write import report_transitions, write_transitions
from app.transports.base import DeliveryResult

STATES_ENDED_BY_ARRIVAL = (
    RecipientState.QUEUED,
    RecipientState.PAUSED,
    RecipientState.UNCERTAIN,
    RecipientState.FAILED,
)
"""States of an attempted message whose outcome such evidence decides. One that is being sent has a lease: its outcome
is awaited."""


def was_attempted(transaction: Transaction, recipient: RecipientRow) -> bool:
    """Whether its message may have been handed over. Of one that a restore has held, the attempt may be lost with the
    database that counted it."""
    return bool(recipient.attempts) or has_step(transaction, recipient.id, TimelineStep.HELD)


def write_arrival(transaction: Transaction, recipient: RecipientRow, sign: str) -> None:
    """Writes that the message was sent, with all that follows from an accepted attempt. `sign` names the evidence. The
    caller holds the locks of the recipient and of its queue entry, if there is one."""
    moment = now()
    if recipient.state == RecipientState.FAILED:
        failed_time = failed_times(transaction, [recipient.id]).get(recipient.id, moment)
        group_id, tags = recipient.group_id, recipient.tags
        count_in_group(transaction, recipient.account_id, group_id, failed_time, tags, failed_contacts=-1)
    accepted = DeliveryResult.accepted(f"no answer, but it has arrived: {sign}")
    address = recipient.email if recipient.type == "email" else recipient.mobile
    transition = sent_transition(
        recipient, AttemptResult(recipient.id, recipient.attempts, address, moment, accepted), accepted
    )
    write_transitions(transaction, [transition])
    transaction.after_commit(lambda: report_transitions([transition]))


def acknowledge(transaction: Transaction, texts: Sequence[RecipientRow]) -> None:
    """Ends text messages that were sent as delivered: receipts, which are in their timelines, confirm it."""
    if not texts:
        return
    moment = now()
    update_recipients(transaction, [text.id for text in texts], state=RecipientState.DELIVERED, reason=None)
    for text in texts:
        forget_soft_bounces(transaction, text)
    accounts = dict.fromkeys(text.account_id for text in texts)
    record_many(
        transaction,
        {
            account_id: [text.event("acknowledged", moment) for text in texts if text.account_id == account_id]
            for account_id in accounts
        },
    )
