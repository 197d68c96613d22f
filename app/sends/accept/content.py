"""The content of a send: the fields of the request, with those of the saved message as defaults
(docs/sending.md#with-a-message)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import is_valid_email
from app.db.models import Message
from app.db.public_ids import has_id
from app.errors import ErrorCollector
from app.sends.accept.draft import MessageType, SendDraft


@dataclass(frozen=True, slots=True)
class Content:
    """Subject, sender and bodies. Absent parts are None, never empty, except the sender: a request with an empty
    `from_address` is refused."""

    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    body_html: str | None
    body_text: str | None


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """A message: its content is the default for a send, its type is that of the send. `id` is its stored one; None for
    one that is not stored."""

    type: MessageType
    content: Content
    id: int | None = None


SAVED_COLUMNS = (Message.id, Message.type, *(getattr(Message, name) for name in Content.__slots__))


def find_saved_message(session: Session, account_id: int, message_id: int) -> SavedMessage | None:
    """The account's message with this id, as it is stored or as everybody outside names it; None if there is none."""
    statement = select(*SAVED_COLUMNS).where(has_id(Message, account_id, message_id))
    row = session.connection().execute(statement).one_or_none()
    if row is None:
        return None
    row_id, type_, *content = row
    return SavedMessage(type_, Content(*content), row_id)


def effective_content(draft: SendDraft, saved_message: SavedMessage | None) -> Content:
    """The request's fields, else those of the message. An empty text also overrides the message's: it omits that
    part."""

    def field(name: str) -> str | None:
        requested: str | None = getattr(draft, name)
        return requested if requested is not None or saved_message is None else getattr(saved_message.content, name)

    if draft.type == "sms":
        return Content(None, None, field("from_address"), None, None, field("body_text") or None)
    return Content(
        subject=field("subject") or None,
        from_name=field("from_name") or None,
        from_address=field("from_address"),
        reply_to=field("reply_to") or None,
        body_html=field("body_html") or None,
        body_text=field("body_text") or None,
    )


def check_content(
    draft: SendDraft, saved_message: SavedMessage | None, content: Content, errors: ErrorCollector
) -> None:
    """Collects what is missing or invalid (docs/send-errors.md#order-of-errors)."""
    if draft.type == "sms":
        if is_blank(content.body_text):
            errors.add("content_missing", field="body_text", detail="body_text is missing or blank.")
        return
    if is_blank(content.body_html) and is_blank(content.body_text):
        errors.add("content_missing", field="body_html")
    if is_blank(content.subject):
        errors.add("subject_empty", field="subject")
    if saved_message is not None and not content.from_name and not saved_message.content.from_name:
        errors.add("from_name_required", field="from_name")
    if content.reply_to is not None and not is_valid_email(content.reply_to):
        errors.add("invalid_reply_to_address", field="reply_to")


def is_blank(text: str | None) -> bool:
    return not (text or "").strip()
