"""The building blocks of resources in responses, as the OpenAPI description shows them (docs/openapi.md#schemas).

marshmallow serialises no page, so these schemas only describe. Clients are generated from the description: whatever
a response always has is required, and a response may get further properties at any time.
"""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, fields

OPTIONAL_METADATA = {"is_optional": True}
"""Options of a property that only some responses have: `Nested(LinkSchema, metadata=OPTIONAL)`."""


class ResponseSchema(Schema):
    """An object of a response: it always has all properties but those that are `OPTIONAL_METADATA`."""

    class Meta:
        """Further properties may come at any time: nothing is said of them, so that typed clients neither refuse them
        nor accept a misspelt name."""

        unknown = EXCLUDE

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Requires the property, unless it is declared to be optional."""
        field_obj.required = not field_obj.metadata.get("is_optional", False)


class Timestamp(fields.String):
    """An instant, `2026-01-31T10:00:00Z`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "metadata": {"format": "date-time", **options.get("metadata", {})}})


class Uuid(fields.String):
    """A uuid in lower case."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "metadata": {"format": "uuid", **options.get("metadata", {})}})


class Id(fields.Integer):
    """The id of a resource, an integer of 64 bits."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "metadata": {"format": "int64", **options.get("metadata", {})}})


# Links and envelopes, as the OpenAPI description shows them (docs/requests.md#links).


class LinkSchema(ResponseSchema):
    """A link to a resource."""

    href = fields.String()


class SelfLinksSchema(ResponseSchema):
    """The link of a resource to itself."""

    self = fields.Nested(LinkSchema)


class PageLinksSchema(SelfLinksSchema):
    """The links of a page; `next` and `prev` if such a page exists."""

    next = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)
    prev = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class EnvelopeSchema(ResponseSchema):
    """The attributes of every collection; each adds its own `_embedded`."""

    offset = fields.Integer()
    limit = fields.Integer()
    size = fields.Integer()
    _links = fields.Nested(PageLinksSchema)


def collection_of(key: str, schema: type[ResponseSchema], title: str | None = None) -> type[EnvelopeSchema]:
    """The schema of a page with items of a schema under that key. The description names it after its items, or by the
    title."""
    name = f"{title or schema.__name__.removesuffix('Schema')}Collection"
    items = {key: fields.List(fields.Nested(schema)), "__doc__": "The items of a page."}
    embedded = type(f"{name}EmbeddedSchema", (ResponseSchema,), items)
    page = {"_embedded": fields.Nested(embedded), "__doc__": "A page of items."}
    return type(f"{name}Schema", (EnvelopeSchema,), page)
