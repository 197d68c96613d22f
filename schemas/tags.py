"""The counts of a tag as clients see them (docs/tags.md#counts)."""

from __future__ import annotations

from marshmallow import fields

from schemas.responses import ResponseSchema, SelfLinksSchema


class CountsSchema(ResponseSchema):
    """Counts of recipients, as those of a group."""

    sent = fields.Integer()
    failed_contacts = fields.Integer()
    bounced = fields.Integer()
    delivered = fields.Integer()
    opened = fields.Integer()
    clicked = fields.Integer()
    unsubscribed = fields.Integer()


class DayCountsSchema(CountsSchema):
    """The counts of a day in the zone of `_tz`."""

    day = fields.Date()


class TagCountsSchema(CountsSchema):
    """The counts of a tag, of the last 30 days together and of each, the newest first."""

    tag = fields.String()
    days = fields.List(fields.Nested(DayCountsSchema))
    _links = fields.Nested(SelfLinksSchema)
