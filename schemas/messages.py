"""Messages as clients see them (docs/endpoints.md#messages)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from app.content.limits import MAX_FROM_NAME_LENGTH, MAX_SUBJECT_LENGTH
from app.names import LONGEST_NAME
from schemas.base import CodeSchema
from schemas.fields import Email, Name, String
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    collection_of,
)
from schemas.sends import Body


class MessageLinksSchema(SelfLinksSchema):
    """The links of a message."""

    content = fields.Nested(LinkSchema)


class MessageEmbeddedSchema(ResponseSchema):
    """What `expand` adds to a message."""

    content = fields.Nested("MessageContentSchema")


class MessageSchema(ResponseSchema):
    """A stored message."""

    id = Id()
    name = fields.String()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    subject = fields.String(allow_none=True)
    from_name = fields.String(allow_none=True)
    from_address = fields.String(allow_none=True)
    reply_to = fields.String(allow_none=True)
    thumbnail_url = fields.String(allow_none=True)
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    _links = fields.Nested(MessageLinksSchema)
    _embedded = fields.Nested(MessageEmbeddedSchema, metadata=OPTIONAL_METADATA)


class MessageContentLinksSchema(SelfLinksSchema):
    """The links of a message's content."""

    message = fields.Nested(LinkSchema)


class MessageContentEmbeddedSchema(ResponseSchema):
    """What `expand` adds to a message's content."""

    message = fields.Nested(MessageSchema)


class MessageContentSchema(ResponseSchema):
    """The bodies of a message."""

    message_id = Id()
    body_html = fields.String(allow_none=True)
    body_text = fields.String(allow_none=True)
    _links = fields.Nested(MessageContentLinksSchema)
    _embedded = fields.Nested(MessageContentEmbeddedSchema, metadata=OPTIONAL_METADATA)


MessageCollectionSchema = collection_of("messages", MessageSchema)


class NewMessageSchema(CodeSchema):
    """The form with which the console creates a message."""

    name = Name(required=True, least=1, most=LONGEST_NAME)
    type = String(required=True, choices=MESSAGE_TYPES)


class WrittenSmsSchema(CodeSchema):
    """The form of a stored text message; null clears an attribute."""

    name = Name(required=True, least=1, most=LONGEST_NAME)
    from_address = String(allow_none=True)
    body_text = Body()


class WrittenEmailSchema(CodeSchema):
    """The form of a stored mail; null clears an attribute."""

    name = Name(required=True, least=1, most=LONGEST_NAME)
    subject = String(most=MAX_SUBJECT_LENGTH, allow_none=True)
    from_name = String(most=MAX_FROM_NAME_LENGTH, allow_none=True)
    from_address = Email(allow_none=True)
    reply_to = Email(allow_none=True)
    thumbnail_url = String(allow_none=True)
    body_html = Body()
    body_text = Body()


NEW, WRITTEN = NewMessageSchema(), {"email": WrittenEmailSchema(), "sms": WrittenSmsSchema()}
"""The schemas of the forms, those of a written message by its type."""
