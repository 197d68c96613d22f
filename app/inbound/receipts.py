"""Receipts of text messages: what the handset, or the network in its place, says of one (decisions: 8 and 11).

    sent   delivered   delivered, event `acknowledged`; counted as delivered already
    sent   failed      bounced, event `bounced`; counted in `bounced` and no longer in `delivered`

The first receipt decides: what comes after it, a repetition or the opposite, changes nothing. A message that the
network gave up at the end of its time has bounced for now, any other for good, which blocks the mobile (decisions: 5).
"""

from __future__ import annotations

import enum
import re
import time
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.contacts.events import contact_events
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Recipient
from app.db.storable import storable_id, storable_text
from app.events.outbox import record
from app.inbound.texts import IS_TEXT, Text, first_text, texts
from app.recipients.conditions import in_state
from app.recipients.redaction import Redaction
from app.recipients.states import NOT_YET_SENT, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.bounce_blocking import Address, note_bounce, note_delivery
from app.services import Services

EXPIRED = re.compile(r"\bEXPIRED\b", re.IGNORECASE)
NO_WORDS = {"delivered": "the gateway says: delivered", "failed": "the gateway says: not delivered"}
LOOK_AGAIN = 0.1
"""Seconds between two looks for a message that is not noted as sent yet."""

Status = Literal["delivered", "failed"]


class Effect(enum.Enum):
    """What a receipt did."""

    RECORDED = "recorded"
    KNOWN = "known"
    """The message has its end already; nothing changed."""
    EARLY = "early"
    """The message is not noted as sent yet: the same receipt a moment later may find it so."""
    UNKNOWN = "unknown"
    """There is no such text message."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The end of one text message; `detail` holds the gateway's own words."""

    recipient_id: int
    status: Status
    detail: str = ""


def take_receipt(services: Services, receipt: Receipt, *, patience: float) -> Effect:
    """Writes what the receipt says in a transaction of its own.

    A gateway may be quicker than the sender, which writes outcomes together: an early receipt waits for it, `patience`
    seconds at most.
    """
    end = time.monotonic() + patience
    receipt = replace(receipt, detail=Redaction.of(services.settings).words(receipt.detail))
    while True:
        effect = services.database.transact(lambda transaction: record_receipt(transaction, receipt))
        if effect is not Effect.EARLY or time.monotonic() > end or services.stopping.is_set():
            return effect
        services.stopping.wait(LOOK_AGAIN)


def record_receipt(transaction: Transaction, receipt: Receipt) -> Effect:
    """Writes what the receipt says, once."""
    # The lock makes two copies of a receipt at the same moment one after the other.
    transaction.execute(select(Recipient.id).where(Recipient.id == receipt.recipient_id).with_for_update())
    text = first_text(transaction, texts().where(Recipient.id == receipt.recipient_id))
    if text is None:
        return Effect.UNKNOWN
    if text.state in NOT_YET_SENT:
        return Effect.EARLY
    if text.state != RecipientState.SENT:
        return Effect.KNOWN
    detail = clean(receipt.detail) or NO_WORDS[receipt.status]
    if receipt.status == "delivered":
        _acknowledge(transaction, text, detail)
    else:
        _bounce(transaction, text, detail)
    return Effect.RECORDED


def clean(detail: str) -> str:
    """Words of others, in a form that databases and JSON can hold, and not long."""
    return storable_text(detail)


def _acknowledge(transaction: Transaction, text: Text, detail: str) -> None:
    moment = now()
    _set_state(transaction, text, RecipientState.DELIVERED, None)
    note_delivery(transaction, _address(text))
    record(transaction, text.account_id, [text.event("acknowledged", moment)])
    text.add_step(transaction, TimelineStep.ACKNOWLEDGED, detail, moment)


def _bounce(transaction: Transaction, text: Text, detail: str) -> None:
    moment, temporary = now(), EXPIRED.search(detail) is not None
    _set_state(transaction, text, RecipientState.BOUNCED, detail)
    touched = note_bounce(transaction, _address(text), text.id, temporary=temporary)
    reason = "delivery time expired" if temporary else "not delivered"
    told = text.event("bounced", moment, bounce_reason=reason, bounce_string=detail, is_temporary_bounce=temporary)
    updates = contact_events("updated", touched.get(text.account_id, ()), moment)
    record(transaction, text.account_id, [told, *updates])
    text.add_step(transaction, TimelineStep.BOUNCED, detail, moment)
    count_in_group(transaction, text.group_id, bounced=1, delivered=-1)


def _set_state(transaction: Transaction, text: Text, state: RecipientState, reason: str | None) -> None:
    transaction.execute(
        update(Recipient).where(Recipient.id == text.id).values(state=state, reason=reason),
        execution_options={"synchronize_session": False},
    )


def _address(text: Text) -> Address:
    return Address(text.account_id, text.mobile or "", "mobile")


def recipient_with_gateway_id(session: Session, gateway_id: str) -> int | None:
    """The latest recipient whose message the gateway called so; None for an id that nobody has (yet), or can have."""
    known = storable_id(gateway_id)
    if known is None:
        return None
    statement = select(Recipient.id).where(Recipient.gateway_id == known).order_by(Recipient.id.desc()).limit(1)
    return session.scalars(statement).first()


def has_unsettled_texts(session: Session) -> bool:
    """Whether a text message is on its way, so that a receipt may have been quicker than the note of its id."""
    statement = select(Recipient.id).where(in_state(RecipientState.SENDING), IS_TEXT).limit(1)
    return session.scalars(statement).first() is not None
