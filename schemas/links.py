"""Links and envelopes, as the OpenAPI description shows them (docs/requests.md#links)."""

from __future__ import annotations

from marshmallow import Schema, fields


class LinkSchema(Schema):
    """A link to a resource."""

    href = fields.String(required=True)


class SelfLinksSchema(Schema):
    """The link of a resource to itself."""

    self = fields.Nested(LinkSchema, required=True)


class PageLinksSchema(SelfLinksSchema):
    """The links of a page; `next` and `prev` if such a page exists."""

    next = fields.Nested(LinkSchema)
    prev = fields.Nested(LinkSchema)


class EnvelopeSchema(Schema):
    """The attributes of every collection; each adds its own `_embedded`."""

    offset = fields.Integer(required=True)
    limit = fields.Integer(required=True)
    size = fields.Integer(required=True)
    _links = fields.Nested(PageLinksSchema, required=True)
