"""Transactional groups and sent contacts as clients see them (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from app.addresses import MESSAGE_TYPES
from schemas.links import EnvelopeSchema, LinkSchema, SelfLinksSchema


class GroupSchema(Schema):
    """The report of the sends of a group."""

    id = fields.Integer()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    name = fields.String()
    creation_time = fields.String()
    last_sent_time = fields.String()
    sent = fields.Integer()
    failed_contacts = fields.Integer()
    bounced = fields.Integer()
    delivered = fields.Integer()
    opened = fields.Integer()
    clicked = fields.Integer()
    unsubscribed = fields.Integer()
    _links = fields.Nested(SelfLinksSchema, required=True)


class GroupsSchema(Schema):
    """The items of a page of groups."""

    groups = fields.List(fields.Nested(GroupSchema), required=True, data_key="transactional-groups")


class GroupCollectionSchema(EnvelopeSchema):
    """A page of groups."""

    _embedded = fields.Nested(GroupsSchema, required=True)


class SentContactLinksSchema(Schema):
    """The links of a sent contact; an sms without a list has none."""

    list = fields.Nested(LinkSchema)
    contact = fields.Nested(LinkSchema)


class SentContactSchema(Schema):
    """A recipient of a message, in the report of the message."""

    contact_id = fields.Integer(allow_none=True)
    list_id = fields.Integer(allow_none=True)
    send_time = fields.String()
    report_id = fields.Integer()
    first_open_time = fields.String(allow_none=True)
    last_open_time = fields.String(allow_none=True)
    open_type = fields.String(validate=validate.OneOf(["not_opened", "html", "text", "sms"]))
    _links = fields.Nested(SentContactLinksSchema, required=True)


class SentContactsSchema(Schema):
    """The items of a page of sent contacts."""

    sent_contacts = fields.List(fields.Nested(SentContactSchema), required=True, data_key="sent-contacts")


class SentContactCollectionSchema(EnvelopeSchema):
    """A page of sent contacts."""

    _embedded = fields.Nested(SentContactsSchema, required=True)
