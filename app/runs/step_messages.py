"""The messages that steps send: which ones a definition names, whether they have a sender, and which of their links can
be asked for (docs/automations.md#steps)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import is_valid_email
from app.db.models import Account, Message
from app.ids import shown_id
from app.lists.fields import ListSpec
from app.sends.accept.senders import SmsSenderRow, approved_sms_senders, default_sms_sender
from app.tracking.links import has_secret, written_links

MAX_SHOWN_LINKS = 10


@dataclass(frozen=True, slots=True)
class Senders:
    """Who can send the messages of an automation to its list (docs/sending.md#senders)."""

    list_id: int
    default_address: str | None
    """The account's default sender of email."""
    approved: dict[str, SmsSenderRow]
    """The sms senders that messages name, by address."""
    default_sms: SmsSenderRow | None

    def problem_of(self, message: Message) -> tuple[str, str] | None:
        """The code and the text of what is wrong with the sender of a message; None if nothing is."""
        return self._problem_of_email(message) if message.type == "email" else self._problem_of_sms(message)

    def _problem_of_email(self, message: Message) -> tuple[str, str] | None:
        address = message.from_address
        if address is None and self.default_address is None:
            return "invalid_from_address", "the message has no from_address, and the account has no default sender"
        if address is not None and not is_valid_email(address):
            return "invalid_from_address", f"the from_address of the message, {address}, is not an email address"
        return None

    def _problem_of_sms(self, message: Message) -> tuple[str, str] | None:
        address = message.from_address
        sender = self.default_sms if address is None else self.approved.get(address)
        if sender is None and address is None:
            return "invalid_from_address", (
                "the message has no from_address, the list has no number of its own, and the account does not have "
                "exactly one sms sender: give the message one of the account's senders"
            )
        if sender is None:
            return (
                "invalid_from_address",
                f"{address}, the from_address of the message, is not an approved sender of the account",
            )
        if sender.list_id not in (None, self.list_id):
            other = shown_id(sender.list_id)
            return (
                "from_address_invalid_list",
                f"{sender.address} is assigned to the list {other} and cannot send to other lists",
            )
        return None


def find_senders(session: Session, contact_list: ListSpec, messages: Iterable[Message]) -> Senders:
    """The senders of these messages: at most three selects."""
    account_id, named_messages = contact_list.account_id, list(messages)
    named = {
        message.from_address for message in named_messages if message.type == "sms" and message.from_address is not None
    }
    unnamed = {message.type for message in named_messages if message.from_address is None}
    default = select(Account.default_from_address).where(Account.id == account_id)
    return Senders(
        contact_list.id,
        session.scalars(default).one() if "email" in unnamed else None,
        approved_sms_senders(session, account_id, named) if named else {},
        default_sms_sender(session, account_id, contact_list.id) if "sms" in unnamed else None,
    )


def problem_of_link(message: Message, link: str) -> str | None:
    """Why no click on this link of the message can be known; None if it can. A link with wildcards is looked for as it
    is written in the message."""
    text = message.body_text or ""
    links = dict.fromkeys((*written_links("html_email", message.body_html or ""), *written_links("text_email", text)))
    if link not in links:
        listed_links = ", ".join(list(links)[:MAX_SHOWN_LINKS]) or "none"
        return f"the message {message.name!r} has no link {link!r}; it has {listed_links}"
    if has_secret(link):
        return f"clicks on {link!r} are not known: it looks as if it contained a secret, so it is not tracked"
    return None
