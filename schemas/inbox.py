"""Captured messages as clients see them (docs/endpoints.md#inbox)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from schemas.responses import EnvelopeSchema, Id, LinkSchema, ResponseSchema, SelfLinksSchema, Timestamp, Uuid


class CapturedMessageLinksSchema(SelfLinksSchema):
    """The recipient whose message it is."""

    recipient = fields.Nested(LinkSchema)


class CapturedMessageSchema(ResponseSchema):
    """A message that a test key has sent."""

    id = Id()
    uuid = Uuid()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    sender = fields.String()
    address = fields.String()
    subject = fields.String(allow_none=True)
    blind_copy = fields.Boolean()
    captured_time = Timestamp()
    _links = fields.Nested(CapturedMessageLinksSchema)


class CapturedMessageWithContentSchema(CapturedMessageSchema):
    """A captured message with all its content."""

    content = fields.String()


class InboxEmbeddedSchema(ResponseSchema):
    """The items of a page of the inbox."""

    messages = fields.List(fields.Nested(CapturedMessageSchema))


class InboxSchema(EnvelopeSchema):
    """A page of the inbox."""

    _embedded = fields.Nested(InboxEmbeddedSchema)
