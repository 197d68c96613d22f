"""The API root as clients see it (docs/endpoints.md#api-root)."""

from __future__ import annotations

from marshmallow import fields

from schemas.responses import LinkSchema, ResponseSchema, SelfLinksSchema, Timestamp


class RootLinksSchema(SelfLinksSchema):
    """The links to the resources."""

    lists = fields.Nested(LinkSchema)
    messages = fields.Nested(LinkSchema)
    transactional_groups = fields.Nested(LinkSchema)


class RootSchema(ResponseSchema):
    """The scopes of a key."""

    access_token_scope = fields.String()
    access_token_creation_time = Timestamp()
    access_token_expiry_time = Timestamp(allow_none=True)
    _links = fields.Nested(RootLinksSchema)
