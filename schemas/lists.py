"""Lists as clients see them (docs/endpoints.md#lists)."""

from __future__ import annotations

from marshmallow import fields

from schemas.contacts import ContactCollectionSchema
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    collection_of,
)


class ContactListLinksSchema(SelfLinksSchema):
    """The links of a list."""

    contacts = fields.Nested(LinkSchema)


class ContactListEmbeddedSchema(ResponseSchema):
    """What `expand` adds to a list."""

    contacts = fields.Nested(ContactCollectionSchema)


class ContactListSchema(ResponseSchema):
    """A list of contacts."""

    id = Id()
    name = fields.String(allow_none=True)
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    _links = fields.Nested(ContactListLinksSchema)
    _embedded = fields.Nested(ContactListEmbeddedSchema, metadata=OPTIONAL_METADATA)


ContactListCollectionSchema = collection_of("lists", ContactListSchema)
