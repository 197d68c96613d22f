"""Messages as clients see them (docs/endpoints.md#messages)."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from app.addresses import MESSAGE_TYPES
from schemas.links import EnvelopeSchema, LinkSchema, SelfLinksSchema


class MessageLinksSchema(SelfLinksSchema):
    """The links of a message."""

    content = fields.Nested(LinkSchema, required=True)


class MessageEmbeddedSchema(Schema):
    """What `expand` adds to a message."""

    content = fields.Nested("MessageContentSchema")


class MessageSchema(Schema):
    """A stored message."""

    id = fields.Integer()
    name = fields.String()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    subject = fields.String(allow_none=True)
    from_name = fields.String(allow_none=True)
    from_address = fields.String(allow_none=True)
    reply_to = fields.String(allow_none=True)
    thumbnail_url = fields.String(allow_none=True)
    creation_time = fields.String()
    last_modified_time = fields.String()
    _links = fields.Nested(MessageLinksSchema, required=True)
    _embedded = fields.Nested(MessageEmbeddedSchema)


class MessageContentLinksSchema(SelfLinksSchema):
    """The links of a message's content."""

    message = fields.Nested(LinkSchema, required=True)


class MessageContentEmbeddedSchema(Schema):
    """What `expand` adds to a message's content."""

    message = fields.Nested(MessageSchema)


class MessageContentSchema(Schema):
    """The bodies of a message."""

    message_id = fields.Integer()
    body_html = fields.String(allow_none=True)
    body_text = fields.String(allow_none=True)
    _links = fields.Nested(MessageContentLinksSchema, required=True)
    _embedded = fields.Nested(MessageContentEmbeddedSchema)


class MessagesSchema(Schema):
    """The items of a page of messages."""

    messages = fields.List(fields.Nested(MessageSchema), required=True)


class MessageCollectionSchema(EnvelopeSchema):
    """A page of messages."""

    _embedded = fields.Nested(MessagesSchema, required=True)
