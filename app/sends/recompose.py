"""The message of a recipient composed once more, to be shown (docs/console-messages.md#what-was-sent).

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
from app.db.queue import RECIPIENT_COLUMNS
from app.recipients.row import has_step
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretUnreadable
from app.sends.delivery.load import load
from app.sends.delivery.message import MessageBuilder
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.delivery.sizes import Unsendable
from app.sends.explain.waits import at
from app.sends.secret_values import MASK
from app.settings import Settings


class NotComposable(Exception):
    """The message cannot be composed again; the text says why."""

    NO_MESSAGE: ClassVar = "There is no message: "
    """How the text begins where the message would not be sent either."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What a message is composed from, and how it may differ from that which was sent."""

    recipient: ClaimedRecipient
    remarks: Sequence[str]


def load_again(session: Session, settings: Settings, recipient: Recipient) -> Ingredients:
    """What the recipient's message is composed from; at most eight selects. Raises `NotComposable` if that is not
    kept."""
    purged = session.scalar(select(Send.content_purged_time).where(Send.id == recipient.send_id))
    if purged is not None:
        raise NotComposable(f"The content is no longer kept: it was purged at {at(purged)} (RETAIN_CONTENT).")
    if has_step(session, recipient.id, TimelineStep.FORGOTTEN):
        raise NotComposable("The content is no longer kept: the recipient was forgotten.")
    (claimed,) = load(session, [as_claimed(recipient)], settings)
    return Ingredients(claimed, list(_remarks(recipient, claimed)))


def recompose(settings: Settings, recipient: ClaimedRecipient) -> None:
    """Completes the recipient with its message. Raises `NotComposable` if it would not be sent either."""
    builder = MessageBuilder(settings)
    try:
        builder.compose(recipient, builder.channels(recipient).for_dry_run())
    except Unsendable as refusal:
        raise NotComposable(f"{NotComposable.NO_MESSAGE}{refusal}.") from None
    except SecretUnreadable:
        raise NotComposable(
            "It cannot be composed, because the DKIM keys were stored with another SECRET_KEY."
        ) from None


def as_claimed(recipient: Recipient) -> ClaimedRecipient:
    """The recipient as a worker would claim it, with a mask in place of each secret value."""
    columns = {name: getattr(recipient, name) for name in (*RECIPIENT_COLUMNS, "attempts", "creation_time")}
    masks = dict.fromkeys((name for name, value in recipient.values.items() if value is None), MASK)
    return ClaimedRecipient.from_columns(columns | {"reason": None}, masks)


def _remarks(recipient: Recipient, claimed: ClaimedRecipient) -> Iterator[str]:
    contact = claimed.contact
    if claimed.secrets is not None:
        yield f"{MASK} stands for a secret value."
    if recipient.contact_id is not None and contact is None:
        yield "The contact no longer exists, so its values are missing here."
    elif contact and recipient.sent_time and contact.last_modified_time > recipient.sent_time:
        changed = at(contact.last_modified_time)
        yield f"The contact was changed at {changed}, after the message was sent. Its current values are shown here."
