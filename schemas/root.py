"""The API root as clients see it (docs/endpoints.md#api-root)."""

from __future__ import annotations

from marshmallow import Schema, fields

from schemas.links import LinkSchema, SelfLinksSchema


class RootLinksSchema(SelfLinksSchema):
    """The links to the resources."""

    lists = fields.Nested(LinkSchema, required=True)
    messages = fields.Nested(LinkSchema, required=True)
    transactional_groups = fields.Nested(LinkSchema, required=True)


class RootSchema(Schema):
    """The scopes of a key."""

    access_token_scope = fields.String()
    access_token_creation_time = fields.String()
    access_token_expiry_time = fields.String(allow_none=True)
    _links = fields.Nested(RootLinksSchema, required=True)
