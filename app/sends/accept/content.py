"""What a send says: the request's fields, with those of the message it refers to as defaults (decisions: 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import is_valid_email
from app.db.models import Message
from app.errors import ErrorCollector
from app.ids import BIGGEST
from app.sends.accept.draft import MessageType, SendDraft


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """A stored message, as the default of a send."""

    id: int
    type: MessageType
    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    body_html: str | None
    body_text: str | None


@dataclass(frozen=True, slots=True)
class Content:
    """What is sent and from whom, as far as request and message say so. Absent parts are None, never empty, but for
    the sender: a request that names nobody as such is refused."""

    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    body_html: str | None
    body_text: str | None


def find_saved_message(session: Session, account_id: int, message_id: Any) -> SavedMessage | None:
    """The account's message that the attribute `message_id` of a body names; None for what names none."""
    if not isinstance(message_id, int) or isinstance(message_id, bool) or not 0 < message_id <= BIGGEST:
        return None
    columns = [getattr(Message, name) for name in SavedMessage.__slots__]
    statement = select(*columns).where(Message.account_id == account_id, Message.id == message_id)
    row = session.connection().execute(statement).one_or_none()
    return SavedMessage(*row) if row else None


def effective_content(draft: SendDraft, saved_message: SavedMessage | None) -> Content:
    """The request's fields before those of the message. An empty text overrides like any other: it leaves the part
    of the message out."""

    def of(name: str) -> str | None:
        given: str | None = getattr(draft, name)
        return given if given is not None or saved_message is None else getattr(saved_message, name)

    if draft.type == "sms":
        return Content(None, None, of("from_address"), None, None, of("body_text") or None)
    return Content(
        subject=of("subject") or None,
        from_name=of("from_name") or None,
        from_address=of("from_address"),
        reply_to=of("reply_to") or None,
        body_html=of("body_html") or None,
        body_text=of("body_text") or None,
    )


def check_content(
    draft: SendDraft, saved_message: SavedMessage | None, content: Content, errors: ErrorCollector
) -> None:
    """Collects what is missing or wrong (specification: Transactional send, rule 4 and error table)."""
    if draft.type == "sms":
        if is_blank(content.body_text):
            errors.add("content_missing", field="body_text", detail="body_text is missing, or white space alone.")
        return
    if is_blank(content.body_html) and is_blank(content.body_text):
        errors.add("content_missing", field="body_html")
    if is_blank(content.subject):
        errors.add("subject_empty", field="subject")
    if saved_message is not None and not content.from_name and not saved_message.from_name:
        errors.add("from_name_required", field="from_name")
    if content.reply_to is not None and not is_valid_email(content.reply_to):
        errors.add("invalid_reply_to_address", field="reply_to")


def is_blank(text: str | None) -> bool:
    """Whether there is nothing to read in it."""
    return not (text or "").strip()
