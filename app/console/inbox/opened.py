"""A message of the inbox with all that its page shows (docs/console.md#inbox)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from app.console.content import TextMessage
from app.console.inbox.checks import Check, checks_of
from app.console.inbox.html_facts import HtmlFacts, html_facts
from app.console.inbox.links import MailLink, links_of
from app.db.models import CapturedMessage
from app.secret_keys import SecretKeys
from app.tracking.feedback_channels import Instrumenter
from app.transports.email.read_mail import Mail, read_mail


@dataclass(frozen=True, slots=True)
class OpenedMail:
    """A mail, as it left."""

    mail: Mail
    links: Sequence[MailLink]
    checks: Sequence[Check]


def message_of_capture(found: CapturedMessage) -> Mail | TextMessage:
    """The mail or the text message that was captured."""
    if found.type == "sms":
        return TextMessage(found.sender, found.address, found.content.decode("utf-8", "replace"))
    return read_mail(found.content)


def open_mail(session: Session, secret_keys: SecretKeys, account_id: int, mail: Mail) -> OpenedMail:
    """The account's mail with what there is to say about it; one statement."""
    facts = HtmlFacts() if mail.html is None else html_facts(Instrumenter.without_pixel(mail.html))
    links = links_of(session, secret_keys, account_id, mail, facts)
    return OpenedMail(mail, links, checks_of(mail, facts, links))


def to_look_at(mail: Mail) -> Mail:
    """The mail without the pixel in its HTML, so that looking at it is no opening."""
    return mail if mail.html is None else replace(mail, html=Instrumenter.without_pixel(mail.html))
