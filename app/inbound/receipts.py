"""Receipts of text messages: reports from the handset, or from the network in its place (docs/sms.md#receipts).

    sent   delivered   delivered, event `acknowledged`; counted as delivered already
    sent   failed      bounced, event `bounced`; counted in `bounced` and no longer in `delivered`

The first receipt decides: later ones, whether a repetition or the opposite, change nothing. A message whose validity
period ended is a soft bounce, any other failure a hard one, which blocks the mobile.

One that is paused after an attempt had reached the gateway whose answer was lost, or is to be sent again: a failure
bounces it, unless it repeats the one before that. Any other receipt waits until it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.in_json import in_json
from app.db.models import QueueEntry, Recipient, RecipientStep
from app.db.storable import storable_id, storable_text
from app.events.outbox import record
from app.inbound.effect import Effect, apply_with_patience
from app.inbound.texts import first_text, select_texts
from app.recipients.conditions import IS_TEXT, entry_in_state
from app.recipients.forgotten import is_forgotten
from app.recipients.redaction import Redaction
from app.recipients.row import RecipientRow
from app.recipients.states import NOT_YET_SENT, RecipientState
from app.recipients.store import add_steps, lock_queue_entry, lock_recipient, update_recipients
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.bounce_blocking import forget_soft_bounces
from app.sends.outcomes.bounces import Bounce
from app.sends.outcomes.late_bounce import write_late_bounce
from app.services import Services

DEFAULT_DETAILS = {"delivered": "the gateway says: delivered", "failed": "the gateway says: not delivered"}
"""For a receipt without a text."""

_MESSAGE = re.compile(r"\btext:.*", re.IGNORECASE | re.DOTALL)
"""The end of a receipt repeats the first characters of the message, which may be a code that nobody else must read."""

ReceiptStatus = Literal["delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The final status of one text message; `detail` is the gateway's text."""

    recipient_id: int
    status: ReceiptStatus
    detail: str = ""


def take_receipt(services: Services, receipt: Receipt, *, patience: float) -> Effect:
    """Writes what the receipt says in its own transaction. An early receipt waits for the outcome of its message, for
    at most `patience` seconds."""
    receipt = replace(receipt, detail=Redaction.of(services.settings).redact(receipt.detail))
    return apply_with_patience(services, lambda transaction: record_receipt(transaction, receipt), patience)


def record_receipt(transaction: Transaction, receipt: Receipt) -> Effect:
    """Writes what the receipt says, once."""
    lock_recipient(transaction, receipt.recipient_id)
    of_receipt = select_texts().where(Recipient.id == receipt.recipient_id)
    text = first_text(transaction, of_receipt)
    if text is not None and text.state == RecipientState.PAUSED:
        # A worker may let go of it at this moment.
        lock_queue_entry(transaction, text.id)
        text = first_text(transaction, of_receipt)
    if text is None:
        return Effect.UNKNOWN
    may_bounce = text.state == RecipientState.PAUSED and text.attempts > 0 and receipt.status == "failed"
    if text.state in NOT_YET_SENT and not may_bounce:
        return Effect.EARLY
    if text.mobile is None and is_forgotten(transaction, text.id):
        return Effect.KNOWN
    detail = storable_text(_MESSAGE.sub("", receipt.detail).rstrip()) or DEFAULT_DETAILS[receipt.status]
    if text.state == RecipientState.HELD and receipt.status == "delivered":
        # A sign that it was sent since the backup was made, which counts when it is released.
        add_steps(transaction, [text.step(TimelineStep.ACKNOWLEDGED, detail, now())])
        return Effect.RECORDED
    if text.state not in (RecipientState.SENT, RecipientState.HELD, RecipientState.PAUSED):
        return Effect.KNOWN
    if text.state == RecipientState.PAUSED and _has_bounced(transaction, text.id, detail):
        return Effect.KNOWN
    if receipt.status == "delivered":
        _acknowledge(transaction, text, detail)
    else:
        write_late_bounce(transaction, text, Bounce.of_receipt(detail))
    return Effect.RECORDED


def _has_bounced(session: Session, recipient_id: int, detail: str) -> bool:
    """Whether such a receipt has bounced it before it was sent again: gateways repeat receipts."""
    of_recipient = RecipientStep.recipient_id == recipient_id, RecipientStep.step == TimelineStep.BOUNCED
    steps = select(RecipientStep.id).where(*of_recipient, RecipientStep.detail == detail)
    return session.scalars(steps.limit(1)).first() is not None


def _acknowledge(transaction: Transaction, text: RecipientRow, detail: str) -> None:
    moment = now()
    update_recipients(transaction, [text.id], state=RecipientState.DELIVERED, reason=None)
    forget_soft_bounces(transaction, text)
    record(transaction, text.account_id, [text.event("acknowledged", moment)])
    add_steps(transaction, [text.step(TimelineStep.ACKNOWLEDGED, detail, moment)])


def recipient_with_gateway_id(session: Session, gateway_id: str) -> int | None:
    """The latest recipient whose message has this id at the gateway; None for an unknown or invalid id."""
    known = storable_id(gateway_id)
    if known is None:
        return None
    statement = select(Recipient.id).where(Recipient.gateway_id == known).order_by(Recipient.id.desc()).limit(1)
    return session.scalars(statement).first()


def texts_in_flight(session: Session, among: Sequence[int] | None = None) -> Sequence[int]:
    """The recipients of the text messages that are being sent, whose ids at the gateway are not written yet; with
    `among` those of them that still are. They are as many as all workers have claimed."""
    sending = select(QueueEntry.recipient_id).join(Recipient, Recipient.id == QueueEntry.recipient_id)
    statement = sending.where(entry_in_state(RecipientState.SENDING), IS_TEXT)
    if among is not None:
        statement = statement.where(in_json(QueueEntry.recipient_id, among))
    return session.scalars(statement).all()
