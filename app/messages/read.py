"""Reading messages and their content (docs/endpoints.md#messages)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.db.models import Message
from app.db.public_ids import has_id, public_id
from app.ids import existing, shown_id
from app.query.conditions import Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Property, Shape, as_timestamp, read_one, read_page, renderer

KINDS = {
    "id": FilterType.INTEGER,
    "type": FilterType.ENUM,
    "name": FilterType.STRING,
    "subject": FilterType.STRING,
    "from_name": FilterType.STRING,
    "from_address": FilterType.STRING,
    "reply_to": FilterType.STRING,
    "thumbnail_url": FilterType.STRING,
    "creation_time": FilterType.TIMESTAMP,
    "last_modified_time": FilterType.TIMESTAMP,
}
PROPERTIES = {
    "id": Property(public_id(Message.id)),
    "name": Property(Message.name),
    "type": Property(Message.type),
    "subject": Property(Message.subject),
    "from_name": Property(Message.from_name),
    "from_address": Property(Message.from_address),
    "reply_to": Property(Message.reply_to),
    "thumbnail_url": Property(Message.thumbnail_url),
    "creation_time": Property(Message.creation_time, as_timestamp),
    "last_modified_time": Property(Message.last_modified_time, as_timestamp),
}
CONTENT_PROPERTIES = {
    "message_id": Property(public_id(Message.id)),
    "body_html": Property(Message.body_html),
    "body_text": Property(Message.body_text),
}
ORDER = (Message.creation_time, Message.id)


def message_path(message_id: int) -> str:
    return f"/v1/messages/{shown_id(message_id)}"


def _message_links(row: Row[Any]) -> dict[str, Any]:
    path = message_path(row.id)
    return {"self": {"href": path}, "content": {"href": f"{path}/content"}}


def _content_links(row: Row[Any]) -> dict[str, Any]:
    path = message_path(row.id)
    return {"self": {"href": f"{path}/content"}, "message": {"href": path}}


MESSAGES = Shape(
    resource=Resource(
        name="message",
        collection="messages",
        filters={name: Filter(name, kind, MESSAGE_TYPES if name == "type" else ()) for name, kind in KINDS.items()},
        fields=tuple(PROPERTIES),
        expands=("content",),
        copied=("id",),
    ),
    properties=PROPERTIES,
    keys=(Message.id,),
    links=_message_links,
    order=ORDER,
    filters={"id": Message.id},
)
WITH_COPIES = replace(MESSAGES, order=(Message.creation_time, PROPERTIES["id"].column))
"""The messages of a test account, in the order of the ids that they are shown with. No index has that order."""
CONTENT = Shape(
    resource=Resource(
        name="message content", collection="", filters={}, fields=tuple(CONTENT_PROPERTIES), expands=("message",)
    ),
    properties=CONTENT_PROPERTIES,
    keys=(Message.id,),
    links=_content_links,
    order=ORDER,
)


def require_message(session: Session, account_id: int, message_id: int) -> int:
    """The stored id of the account's message with this id in a path. Raises `not_found`."""
    stored_id = session.scalars(select(Message.id).where(has_id(Message, account_id, message_id)))
    return existing(stored_id.one_or_none(), "message", message_id)


def page_messages(session: Session, account_id: int, query: Query) -> Page:
    """A page of the account's messages; `expand=content` adds the content of each in one further statement."""
    page = read_page(session, WITH_COPIES if query.is_test else MESSAGES, query, Message.account_id == account_id)
    if "content" in query.expand:
        contents = _contents(session, account_id, [row.id for row in page.rows])
        for row, item in zip(page.rows, page.items, strict=True):
            # A message that was deleted between the two statements has no content to show.
            item["_embedded"] = {"content": contents[row.id]} if row.id in contents else {}
    return page


def _contents(session: Session, account_id: int, ids: list[int]) -> dict[int, dict[str, Any]]:
    whole = Query()
    columns = [column.column for column in CONTENT_PROPERTIES.values()]
    statement = select(Message.id, *columns).where(Message.account_id == account_id, Message.id.in_(ids))
    show = renderer(CONTENT, whole)
    return {row.id: show(row) for row in session.execute(statement)}


def get_message(session: Session, account_id: int, message_id: int, query: Query) -> dict[str, Any]:
    """One message, with its content if `expand` requests it."""
    message = _read_message(session, MESSAGES, account_id, message_id, query)
    if "content" in query.expand:
        message["_embedded"] = {
            "content": _read_message(session, CONTENT, account_id, message_id, Query(zone=query.zone))
        }
    return message


def get_content(session: Session, account_id: int, message_id: int, query: Query) -> dict[str, Any]:
    """A message's content, with the message if `expand` requests it."""
    content = _read_message(session, CONTENT, account_id, message_id, query)
    if "message" in query.expand:
        content["_embedded"] = {
            "message": _read_message(session, MESSAGES, account_id, message_id, Query(zone=query.zone))
        }
    return content


def _read_message(session: Session, shape: Shape, account_id: int, message_id: int, query: Query) -> dict[str, Any]:
    message = read_one(session, shape, query, {Message.account_id: account_id, Message.id: message_id})
    return existing(message, "message", shown_id(message_id))
