"""Stored messages, their content, and who was sent them. They are created on the service's command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Unpack

from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import OptionalTime, Property, Resource, Time, embedded

MessageType = Literal["email", "sms"]
OpenType = Literal["not_opened", "html", "text", "sms"]


class MessageContent(Resource):
    """The bodies of a message, with unreplaced wildcards."""

    message_id = Property[int]()
    body_html = Property[str | None]()
    body_text = Property[str | None]()

    @property
    def message(self) -> Message | None:
        """The message, with `expand="message"`."""
        return embedded(self, "message", Message)


class Message(Resource):
    """A stored message."""

    id = Property[int]()
    name = Property[str]()
    type = Property[MessageType]()
    subject = Property[str | None]()
    from_name = Property[str | None]()
    from_address = Property[str | None]()
    reply_to = Property[str | None]()
    thumbnail_url = Property[str | None]()
    creation_time = Time()
    last_modified_time = Time()

    @property
    def content(self) -> MessageContent | None:
        """Its bodies, with `expand="content"`."""
        return embedded(self, "content", MessageContent)


class SentContact(Resource):
    """A recipient that was sent the message."""

    contact_id = Property[int | None]()
    list_id = Property[int | None]()
    send_time = Time()
    report_id = Property[int]()
    first_open_time = OptionalTime()
    last_open_time = OptionalTime()
    open_type = Property[OpenType]()


class MessageQuery(PageQuery, total=False):
    """Filters and parameters of `messages.list`."""

    id: Filter
    type: Filter
    name: Filter
    subject: Filter
    from_name: Filter
    from_address: Filter
    reply_to: Filter
    thumbnail_url: Filter
    creation_time: Filter
    last_modified_time: Filter
    expand: Literal["content"]


class SentContactQuery(PageQuery, total=False):
    """Filters and parameters of `messages.list_sent_contacts`."""

    contact_id: Filter
    list_id: Filter
    send_time: Filter
    report_id: Filter
    first_open_time: Filter
    last_open_time: Filter
    open_type: Filter


class OneMessage(ItemQuery, total=False):
    """Parameters of `messages.get`."""

    expand: Literal["content"]


class OneContent(ItemQuery, total=False):
    """Parameters of `messages.get_content`."""

    expand: Literal["message"]


Filters = Mapping[str, Filter] | None


class Messages(Part):
    """`/v1/messages`"""

    def list(self, *, filters: Filters = None, **query: Unpack[MessageQuery]) -> Collection[Message]:
        """The messages of the account."""
        return Collection(self._caller, "/messages", pairs(query, filters), items_of("messages", Message))

    def get(self, message_id: int, **query: Unpack[OneMessage]) -> Message:
        """One message."""
        return Message(self._caller.get(f"/messages/{message_id}", pairs(query)))

    def get_content(self, message_id: int, **query: Unpack[OneContent]) -> MessageContent:
        """The bodies of a message."""
        return MessageContent(self._caller.get(f"/messages/{message_id}/content", pairs(query)))

    def list_sent_contacts(
        self, message_id: int, *, filters: Filters = None, **query: Unpack[SentContactQuery]
    ) -> Collection[SentContact]:
        """Those who were sent the message, by any send that referred to it."""
        path, read = f"/messages/{message_id}/sent-contacts", items_of("sent-contacts", SentContact)
        return Collection(self._caller, path, pairs(query, filters), read)
