"""Receipts of text messages: reports from the handset, or from the network in its place (docs/sms.md#receipts).

    sent                   delivered   delivered, event `acknowledged`; counted as delivered already
    sent                   failed      bounced, event `bounced`; counted in `bounced` and no longer in `delivered`
    waits after an attempt delivered   the same as if the gateway had accepted it: events `sent` and `acknowledged`
    waits after an attempt failed      bounced, and not sent again
    failed                 delivered   corrected: delivered, with both events
    held                   delivered   noted; counts when it is released

One that waits after an attempt had reached the gateway, whose answer was lost. The first receipt decides: later ones,
whether a repetition or the opposite, change nothing. A message whose validity period ended is a soft bounce, any other
failure a hard one, which blocks the mobile. A receipt stands for all parts of a text: gateways are asked for one.
Before any attempt, and while a worker has the text, a receipt waits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, QueueEntry, Recipient
from app.db.types import storable_id, storable_text
from app.inbound.effect import Effect, apply_with_patience
from app.inbound.texts import first_text, select_texts
from app.recipients.conditions import IS_TEXT, entry_in_state
from app.recipients.redaction import Redaction
from app.recipients.row import RecipientRow, add_steps, has_step, lock_queue_entry, lock_recipient
from app.recipients.states import UNSETTLED_STATES, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.arrival import STATES_ENDED_BY_ARRIVAL, acknowledge, was_attempted, write_arrival
from app.sends.outcomes.bounce_blocking import write_late_bounce
from app.sends.outcomes.transitions import Bounce
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
    text = _find_text(transaction, receipt.recipient_id)
    if text is None:
        return Effect.UNKNOWN
    if text.state in UNSETTLED_STATES:
        if text.state == RecipientState.SENDING or not _may_have_receipt(transaction, text):
            return Effect.EARLY
        # A worker may claim it, or let go of it, at this moment.
        lock_queue_entry(transaction, text.id)
        text = _find_text(transaction, text.id) or text
        if text.state == RecipientState.SENDING:
            return Effect.EARLY
    if text.mobile is None and has_step(transaction, text.id, TimelineStep.FORGOTTEN):
        return Effect.KNOWN
    detail = storable_text(_MESSAGE.sub("", receipt.detail).rstrip()) or DEFAULT_DETAILS[receipt.status]
    return (_deliver if receipt.status == "delivered" else _bounce)(transaction, text, detail)


def _find_text(session: Session, recipient_id: int) -> RecipientRow | None:
    """The text message; a recipient named by its contact has no address of its own until the outcome is written."""
    mobile = func.coalesce(Recipient.mobile, Contact.mobile)
    texts = select_texts(mobile=mobile).outerjoin(Contact, Contact.id == Recipient.contact_id)
    return first_text(session, texts.where(Recipient.id == recipient_id))


def _may_have_receipt(transaction: Transaction, text: RecipientRow) -> bool:
    """Whether the text message may have a receipt. A held one may have been sent since the backup was made."""
    return text.state == RecipientState.HELD or was_attempted(transaction, text)


def _deliver(transaction: Transaction, text: RecipientRow, detail: str) -> Effect:
    if text.state == RecipientState.HELD and has_step(transaction, text.id, TimelineStep.ACKNOWLEDGED):
        return Effect.KNOWN
    if text.state == RecipientState.FAILED and not (text.mobile and was_attempted(transaction, text)):
        return Effect.KNOWN
    if text.state not in (RecipientState.SENT, RecipientState.HELD, *STATES_ENDED_BY_ARRIVAL):
        return Effect.KNOWN
    if text.state in STATES_ENDED_BY_ARRIVAL:
        write_arrival(transaction, text, TimelineStep.ACKNOWLEDGED)
    if text.state != RecipientState.HELD:
        acknowledge(transaction, [text])
    add_steps(transaction, [text.step(TimelineStep.ACKNOWLEDGED, detail, now())])
    return Effect.RECORDED


def _bounce(transaction: Transaction, text: RecipientRow, detail: str) -> Effect:
    if text.state not in (RecipientState.SENT, *UNSETTLED_STATES):
        return Effect.KNOWN
    if text.state in UNSETTLED_STATES and _is_decided(transaction, text, detail):
        return Effect.KNOWN
    write_late_bounce(transaction, text, Bounce.from_receipt(detail))
    return Effect.RECORDED


def _is_decided(transaction: Transaction, text: RecipientRow, detail: str) -> bool:
    """Whether such a receipt has bounced it before it was sent again, since gateways repeat receipts; or another one
    has confirmed one that is held."""
    has_bounced = has_step(transaction, text.id, TimelineStep.BOUNCED, detail)
    return has_bounced or has_step(transaction, text.id, TimelineStep.ACKNOWLEDGED)


def recipient_with_gateway_id(session: Session, gateway_id: str) -> int | None:
    """The latest recipient whose message has this id at the gateway; None for an unknown or invalid id."""
    stored_id = storable_id(gateway_id)
    if stored_id is None:
        return None
    statement = select(Recipient.id).where(Recipient.gateway_id == stored_id).order_by(Recipient.id.desc()).limit(1)
    return session.scalars(statement).first()


def texts_in_flight(session: Session, among: Sequence[int] | None = None) -> Sequence[int]:
    """The recipients of the text messages that are being sent, whose ids at the gateway are not written yet; with
    `among` those of them that still are. They are as many as all workers have claimed."""
    sending = select(QueueEntry.recipient_id).join(Recipient, Recipient.id == QueueEntry.recipient_id)
    statement = sending.where(entry_in_state(RecipientState.SENDING), IS_TEXT)
    if among is not None:
        statement = statement.where(in_json(QueueEntry.recipient_id, among))
    return session.scalars(statement).all()
