"""A bounce that is reported after the attempt, by a DSN or the receipt of a text message."""

from __future__ import annotations

from sqlalchemy import select

from app.automations.watches import end_waits
from app.clock import now
from app.contacts.events import contact_events
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Recipient
from app.events.outbox import record
from app.recipients.row import RecipientRow
from app.recipients.states import UNSETTLED, RecipientState
from app.recipients.store import add_steps, delete_queue_entries, update_recipients
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.bounce_blocking import apply_bounce
from app.sends.outcomes.bounces import COUNTED_AS_DELIVERED, Bounce


def write_late_bounce(transaction: Transaction, recipient: RecipientRow, bounce: Bounce) -> None:
    """Writes what a transition to `bounced` writes; if the group counted the message as delivered, that is subtracted,
    in the hour in which it was counted. The caller holds the locks of the recipient and of its queue entry, if there is
    one."""
    moment, account_id = now(), recipient.account_id
    bounced = {"state": RecipientState.BOUNCED, "reason": bounce.diagnostic, "attempts": recipient.attempts}
    update_recipients(transaction, [recipient.id], **bounced)
    if recipient.state in UNSETTLED:
        delete_queue_entries(transaction, [recipient.id])
    changed = apply_bounce(transaction, recipient, bounce)
    event = recipient.event("bounced", moment, bounce.event_fields)
    record(transaction, account_id, [event, *contact_events("updated", changed.get(account_id, ()), moment)])
    add_steps(transaction, [recipient.step(TimelineStep.BOUNCED, bounce.diagnostic or None, moment)])
    if recipient.step_id is not None:
        end_waits(transaction, {"bounced": [recipient.id]})
    count_in_group(transaction, account_id, recipient.group_id, moment, bounced=1)
    if recipient.state in COUNTED_AS_DELIVERED:
        sent_time = transaction.scalar(select(Recipient.sent_time).where(Recipient.id == recipient.id))
        count_in_group(transaction, account_id, recipient.group_id, sent_time or moment, delivered=-1)
