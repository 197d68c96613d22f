"""Suppressions: the body of a request, and the resources in responses (docs/suppressions.md)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.suppressions.states import MAX_REASON_LENGTH, STATES
from schemas.base import CodeSchema
from schemas.contacts import EMAIL, MOBILE, ListFieldValue
from schemas.fields import Array, Integer, Object, String
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    Uuid,
    collection_of,
)

MAX_SUPPRESSIONS = 1000
"""Suppressions in one request."""


class SuppressionWriteSchema(CodeSchema):
    """An address that is to be blocked, or unsubscribed from a list or from the whole account."""

    state = String(choices=STATES, required=True)
    email = ListFieldValue(EMAIL, metadata={"type": "string"})
    mobile = ListFieldValue(MOBILE, metadata={"type": "string"})
    list_id = Integer(allow_none=True)
    reason = String(most=MAX_REASON_LENGTH, allow_none=True)


class SuppressionsWriteSchema(CodeSchema):
    """The multiple form."""

    suppressions = Array(Object(SuppressionWriteSchema), most=MAX_SUPPRESSIONS, required=True)


class SuppressionLinksSchema(SelfLinksSchema):
    """The query that finds the suppression alone, its list, and the message that caused it."""

    list = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    recipient = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class SuppressionSchema(ResponseSchema):
    """An address that gets no messages."""

    state = fields.String(validate=validate.OneOf(STATES))
    email = fields.String(allow_none=True)
    mobile = fields.String(allow_none=True)
    list_id = Id(allow_none=True)
    reason = fields.String(allow_none=True)
    reply = fields.String(allow_none=True)
    uuid = Uuid(allow_none=True)
    creation_time = Timestamp()
    _links = fields.Nested(SuppressionLinksSchema)


SuppressionCollectionSchema = collection_of("suppressions", SuppressionSchema)
