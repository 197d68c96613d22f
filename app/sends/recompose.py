"""The message of a recipient composed once more, to be shown (docs/console.md#what-was-sent).

It is composed by the code that sends, from what is kept: the content of the send, the values of the recipient, and the
contact as it is now. Nothing in it works for the recipient: who looks at it neither opens the mail nor unsubscribes
anybody. Secret values are masked, also while they are still kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Recipient, Send
from app.infrastructure.secrets import SecretUnreadable
from app.recipients.conditions import is_forgotten
from app.sends.delivery.load import load
from app.sends.delivery.message import ComposedMessage, MessageBuilder
from app.sends.delivery.recipient import ClaimedRecipient, PreparedRecipient
from app.sends.delivery.sizes import Unsendable
from app.sends.explain.waits import at
from app.sends.secret_values import MASK, SecretValues
from app.settings import Settings


class NotComposable(Exception):
    """The message cannot be composed again; the text says why."""

    NO_MESSAGE: ClassVar = "There is no message: "
    """How the text begins where the message would not be sent either."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a message is composed from, and how it may differ from that which was sent."""

    prepared: PreparedRecipient
    remarks: Sequence[str]


def load_again(session: Session, settings: Settings, recipient: Recipient) -> Ingredients:
    """What the recipient's message is composed from; at most eight selects. Raises `NotComposable` if that is not
    kept."""
    purged = session.scalar(select(Send.content_purged_time).where(Send.id == recipient.send_id))
    if purged is not None:
        raise NotComposable(f"What was sent is not kept any more: it was purged at {at(purged)} (RETAIN_CONTENT).")
    if is_forgotten(session, recipient.id):
        raise NotComposable("What was sent is not kept any more: its recipient was forgotten.")
    (prepared,) = load(session, [as_claimed(recipient)], settings)
    return Ingredients(prepared, list(_remarks(recipient, prepared)))


def recompose(settings: Settings, ingredients: Ingredients) -> ComposedMessage:
    """The message. Raises `NotComposable` if it would not be sent either."""
    builder, prepared = MessageBuilder(settings), ingredients.prepared
    try:
        return builder.compose(prepared, builder.channels(prepared).of_dry_run())
    except Unsendable as refusal:
        raise NotComposable(f"{NotComposable.NO_MESSAGE}{refusal}.") from None
    except SecretUnreadable:
        raise NotComposable("It cannot be composed: SECRET_KEY is not the one of the domain's DKIM keys.") from None


def as_claimed(recipient: Recipient) -> ClaimedRecipient:
    """The recipient as a worker would claim it, with a mask in place of each secret value."""
    masks = dict.fromkeys((name for name, value in recipient.values.items() if value is None), MASK)
    return ClaimedRecipient(
        id=recipient.id,
        account_id=recipient.account_id,
        uuid=recipient.uuid,
        send_id=recipient.send_id,
        list_id=recipient.list_id,
        contact_id=recipient.contact_id,
        type=recipient.type,
        email=recipient.email,
        mobile=recipient.mobile,
        values={**recipient.values, **masks},
        reason=None,
        attempts=recipient.attempts,
        secrets=SecretValues(masks) if masks else None,
    )


def _remarks(recipient: Recipient, prepared: PreparedRecipient) -> Iterator[str]:
    contact = prepared.contact
    if prepared.claimed.secrets is not None:
        yield f"{MASK} stands for values that are secret."
    if recipient.contact_id is not None and contact is None:
        yield "The contact is not there any more: where the message named something of it, that is missing here."
    elif contact and recipient.sent_time and contact.last_modified_time > recipient.sent_time:
        changed = at(contact.last_modified_time)
        yield f"The contact has changed since, last at {changed}: what the message names of it is as it is now."
