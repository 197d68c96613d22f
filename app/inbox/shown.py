"""Captured messages as the API shows them (docs/endpoints.md#inbox)."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.db.models import CapturedMessage
from app.ids import existing
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page


def as_text(content: bytes, _zone: ZoneInfo | None = None) -> str:
    """The message as it would have left: the whole mail, or the text."""
    return content.decode("utf-8", "replace")


PROPERTIES = {
    "id": Property(CapturedMessage.id),
    "uuid": Property(CapturedMessage.uuid),
    "type": Property(CapturedMessage.type),
    "sender": Property(CapturedMessage.sender),
    "address": Property(CapturedMessage.address),
    "subject": Property(CapturedMessage.subject),
    "blind_copy": Property(CapturedMessage.is_copy),
    "captured_time": Property(CapturedMessage.captured_time, as_timestamp),
}
PROPERTIES_WITH_CONTENT = {**PROPERTIES, "content": Property(CapturedMessage.content, as_text)}
FILTERS = {
    "id": Filter("id", FilterType.INTEGER),
    "uuid": Filter("uuid", FilterType.UUID),
    "type": Filter("type", FilterType.ENUM, MESSAGE_TYPES),
    "address": Filter("address", FilterType.EMAIL),
    "subject": Filter("subject", FilterType.STRING),
    "blind_copy": Filter("blind_copy", FilterType.BOOLEAN),
    "captured_time": Filter("captured_time", FilterType.TIMESTAMP),
}


def captured_path(message_id: int) -> str:
    return f"/v1/inbox/{message_id}"


def _links(row: Row[Any]) -> dict[str, Any]:
    return {
        "self": {"href": captured_path(row.id)},
        "recipient": {"href": f"/v1/transactional-sends/{row.recipient_uuid}"},
    }


ORDER = (CapturedMessage.captured_time, CapturedMessage.id)
KEYS = (CapturedMessage.id, CapturedMessage.uuid.label("recipient_uuid"))
INBOX_SHAPE = Shape(
    resource=Resource(name="inbox", collection="messages", filters=FILTERS, fields=tuple(PROPERTIES)),
    properties=PROPERTIES,
    keys=KEYS,
    links=_links,
    order=ORDER,
)
CAPTURED_MESSAGE_SHAPE = Shape(
    resource=Resource(name="captured message", collection="", filters=FILTERS, fields=tuple(PROPERTIES_WITH_CONTENT)),
    properties=PROPERTIES_WITH_CONTENT,
    keys=KEYS,
    links=_links,
    order=ORDER,
)


def require_captured(session: Session, account_id: int, message_id: int) -> None:
    """Raises `not_found` unless the account has captured the message."""
    statement = select(CapturedMessage.id).where(
        CapturedMessage.account_id == account_id, CapturedMessage.id == message_id
    )
    existing(session.execute(statement).one_or_none(), "captured message", message_id)


def page_captured(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's captured messages, the newest first."""
    return read_page(session, INBOX_SHAPE, query, CapturedMessage.account_id == account_id)


def get_captured(session: Session, account_id: int, message_id: int, query: Query) -> dict[str, Any]:
    """One captured message with its content. Raises `not_found`."""
    row = read_one(
        session, CAPTURED_MESSAGE_SHAPE, query, {CapturedMessage.account_id: account_id, CapturedMessage.id: message_id}
    )
    return existing(row, "captured message", message_id)
