"""What was sent, as people look at it: a mail with its parts, or a text message with its own
(docs/console-messages.md#what-was-sent)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Account, Recipient
from app.recipients.conditions import current_entry
from app.recipients.states import RecipientState
from app.sends.recompose import Ingredients, NotComposable, load_again, recompose
from app.settings import Settings
from app.transports.base import OutboundSms
from app.transports.email.read_mail import Mail, read_mail
from app.transports.sms.segments import is_gsm, split

MAX_CHARACTERS = 100_000
"""Characters of a text that a page shows; the source has all."""
HANDED_OVER_STATES = (RecipientState.SENT, RecipientState.DELIVERED, RecipientState.BOUNCED)


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A text message with the parts in which it is sent."""

    sender: str
    to: str
    text: str

    @property
    def encoding(self) -> str:
        """The alphabet, in words."""
        return "GSM 7-bit" if is_gsm(self.text) else "UCS-2"

    @property
    def parts(self) -> list[str]:
        """The parts in which the text is sent. Each is billed as one message."""
        return split(self.text)


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says, or why that is not known any more."""

    uuid: str
    was_sent: bool
    """Whether it was handed over, at least once; otherwise it is what would be sent now."""
    test_account_id: int | None = None
    """The account that it was captured for, in place of being sent."""
    mail: Mail | None = None
    sms: TextMessage | None = None
    remarks: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def title(self) -> str:
        """The text by which a reader knows the message."""
        return (self.mail and self.mail.header("Subject")) or "What was sent"


@dataclass(frozen=True, slots=True)
class ContentSource:
    """What is kept of a message: enough to compose it again, or nothing, for the reason given."""

    content: Content
    ingredients: Ingredients | None


def find_content(session: Session, settings: Settings, recipient: Recipient) -> ContentSource:
    """What is kept of the recipient's message."""
    entry = current_entry(session, recipient)
    state = RecipientState(entry.state if entry else recipient.state)
    test_account = select(Account.id).where(Account.id == recipient.account_id, Account.test_of.is_not(None))
    content = Content(recipient.uuid, state in HANDED_OVER_STATES, session.scalar(test_account))
    try:
        return ContentSource(content, load_again(session, settings, recipient))
    except NotComposable as reason:
        return ContentSource(replace(content, missing=str(reason)), None)


def compose_content(settings: Settings, kept: ContentSource) -> Content:
    """The message as it was sent, with links that lead where they were written to lead, and without the pixel: who
    looks at it is no reader of the mail."""
    if kept.ingredients is None:
        return kept.content
    try:
        recompose(settings, kept.ingredients.recipient)
    except NotComposable as reason:
        return replace(kept.content, missing=str(reason))
    remarks = tuple(kept.ingredients.remarks)
    message, rendered = kept.ingredients.recipient.message, kept.ingredients.recipient.rendered
    if isinstance(message, OutboundSms):
        sms = TextMessage(message.sender, message.to, message.text)
        return replace(kept.content, sms=sms, remarks=remarks)
    mail = replace(read_mail(message.content), html=rendered.html, text=rendered.text)
    return replace(kept.content, mail=mail, remarks=remarks)
