"""Transactional groups and sent contacts as clients see them (docs/endpoints.md#transactional-groups)."""

from __future__ import annotations

from marshmallow import fields, validate

from app.addresses import MESSAGE_TYPES
from schemas.fields import about
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    collection_of,
)


class GroupSchema(ResponseSchema):
    """The report of the sends of a group."""

    id = Id()
    type = fields.String(validate=validate.OneOf(MESSAGE_TYPES))
    name = fields.String(metadata=about("unique among the account's groups"))
    creation_time = Timestamp()
    last_sent_time = Timestamp(metadata=about("when a send was last added to the group"))
    sent = fields.Integer(metadata=about("recipients of all sends of the group, whatever became of them"))
    failed_contacts = fields.Integer(
        metadata=about("recipients that were [skipped](delivery.md#recipient-states), refused or given up")
    )
    bounced = fields.Integer(metadata=about("recipients whose mail bounced"))
    delivered = fields.Integer(
        metadata=about(
            "recipients whose message the next mail server or the gateway has accepted, without a bounce since"
        )
    )
    opened = fields.Integer(metadata=about("recipients who have [opened](tracking.md) the message"))
    clicked = fields.Integer(metadata=about("recipients who have clicked a link of the message"))
    unsubscribed = fields.Integer(metadata=about("recipients who have unsubscribed because of the message"))
    _links = fields.Nested(SelfLinksSchema)


GroupCollectionSchema = collection_of("transactional-groups", GroupSchema)


class SentContactLinksSchema(ResponseSchema):
    """The links of a sent contact; an sms without a list has none."""

    list = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    contact = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class SentContactSchema(ResponseSchema):
    """A recipient of a message, in the report of the message."""

    contact_id = Id(allow_none=True)
    list_id = Id(allow_none=True)
    send_time = Timestamp()
    report_id = Id()
    first_open_time = Timestamp(allow_none=True)
    last_open_time = Timestamp(allow_none=True)
    open_type = fields.String(validate=validate.OneOf(["not_opened", "html", "text", "sms"]))
    _links = fields.Nested(SentContactLinksSchema)


SentContactCollectionSchema = collection_of("sent-contacts", SentContactSchema)
