"""Links and envelopes, as the OpenAPI description shows them (docs/requests.md#links)."""

from __future__ import annotations

from marshmallow import fields

from schemas.responses import OPTIONAL, ResponseSchema


class LinkSchema(ResponseSchema):
    """A link to a resource."""

    href = fields.String()


class SelfLinksSchema(ResponseSchema):
    """The link of a resource to itself."""

    self = fields.Nested(LinkSchema)


class PageLinksSchema(SelfLinksSchema):
    """The links of a page; `next` and `prev` if such a page exists."""

    next = fields.Nested(LinkSchema, metadata=OPTIONAL)
    prev = fields.Nested(LinkSchema, metadata=OPTIONAL)


class EnvelopeSchema(ResponseSchema):
    """The attributes of every collection; each adds its own `_embedded`."""

    offset = fields.Integer()
    limit = fields.Integer()
    size = fields.Integer()
    _links = fields.Nested(PageLinksSchema)
