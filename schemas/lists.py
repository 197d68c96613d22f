"""Lists as clients see them (docs/endpoints.md#lists)."""

from __future__ import annotations

from marshmallow import Schema, fields

from schemas.contacts import ContactCollectionSchema
from schemas.links import EnvelopeSchema, LinkSchema, SelfLinksSchema


class ListLinksSchema(SelfLinksSchema):
    """The links of a list."""

    contacts = fields.Nested(LinkSchema, required=True)


class ListEmbeddedSchema(Schema):
    """What `expand` adds to a list."""

    contacts = fields.Nested(ContactCollectionSchema)


class ListSchema(Schema):
    """A list of contacts."""

    id = fields.Integer()
    name = fields.String(allow_none=True)
    creation_time = fields.String()
    last_modified_time = fields.String()
    _links = fields.Nested(ListLinksSchema, required=True)
    _embedded = fields.Nested(ListEmbeddedSchema)


class ListsSchema(Schema):
    """The items of a page of lists."""

    lists = fields.List(fields.Nested(ListSchema), required=True)


class ListCollectionSchema(EnvelopeSchema):
    """A page of lists."""

    _embedded = fields.Nested(ListsSchema, required=True)
