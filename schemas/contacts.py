"""Contacts: the body of a request, validated against the fields of the list, and the resources in responses
(docs/contacts.md#attributes)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from marshmallow import INCLUDE, RAISE, fields

from app.contacts.values import CLEANERS, InvalidValue, clean_value
from app.lists.fields import FieldSpec, ListSpec, ValueType
from schemas.base import NOT_VALID, CodeSchema, FastLoad, problem
from schemas.fields import Array, Boolean, Integer, Object
from schemas.responses import Id, LinkSchema, ResponseSchema, SelfLinksSchema, Timestamp, collection_of

MAX_CONTACTS = 1000
"""Contacts in one bulk request (docs/contacts.md#bulk-requests)."""

EMAIL = FieldSpec(0, "email", "Email", "Email")
MOBILE = FieldSpec(0, "mobile", "Mobile Phone", "Mobile Phone")


class ListFieldValue(fields.Field[Any]):
    """The value of a list field, validated by the field's type; null clears it."""

    def __init__(self, spec: FieldSpec, **options: Any) -> None:
        super().__init__(allow_none=True, **options)
        self.spec = spec

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **_: Any) -> Any:
        try:
            return clean_value(self.spec, value)
        except InvalidValue as error:
            raise problem(error.code, error.detail) from None

    def compiled(self) -> FastLoad:
        """A function that loads valid values as the field does."""
        spec, clean = self.spec, CLEANERS[self.spec.value_type]
        empty = None if spec.value_type is ValueType.NUMBER else ""

        def load_value(value: Any, _name: str, _around: Mapping[str, Any]) -> Any:
            try:
                return None if value == empty else clean(spec, value)
            except InvalidValue:
                raise NOT_VALID from None

        return load_value


class SubscribedSchema(CodeSchema):
    """Which addresses are subscribed."""

    email = Boolean()
    mobile = Boolean()


class ContactWriteSchema(CodeSchema):
    """The attributes that a client writes, besides one per list field under its key."""

    class Meta:
        """For the OpenAPI description only; requests are validated against the fields of the list."""

        unknown = INCLUDE

    email = ListFieldValue(EMAIL, metadata={"type": "string"})
    mobile = ListFieldValue(MOBILE, metadata={"type": "string"})
    subscribed = Object(SubscribedSchema)
    is_active = Boolean()
    double_opt_in = Boolean()


class ContactsWriteSchema(CodeSchema):
    """The multiple form."""

    contacts = Array(Object(ContactWriteSchema), most=MAX_CONTACTS, required=True)


class ContactUpdateSchema(ContactWriteSchema):
    """One element of a bulk update."""

    id = Integer(required=True)


class ContactsUpdateSchema(CodeSchema):
    """A bulk update."""

    contacts = Array(Object(ContactUpdateSchema), most=MAX_CONTACTS, required=True)


@lru_cache(maxsize=512)
def _element_schema(value_fields: tuple[FieldSpec, ...], ignored_keys: frozenset[str], with_id: bool) -> CodeSchema:
    base = ContactUpdateSchema if with_id else ContactWriteSchema
    declared: dict[str, Any] = {key: fields.Raw(allow_none=True) for key in ignored_keys}
    declared |= {spec.key: ListFieldValue(spec) for spec in value_fields}
    additional = {name: field for name, field in declared.items() if name not in base._declared_fields}
    return cast(CodeSchema, base.from_dict(additional)(unknown=RAISE))


@lru_cache(maxsize=512)
def _bulk_schema(element: CodeSchema) -> CodeSchema:
    array = Array(Object(element), most=MAX_CONTACTS, required=True)
    return cast(CodeSchema, CodeSchema.from_dict({"contacts": array})())


def contact_schema(contact_list: ListSpec) -> CodeSchema:
    """The attributes of a contact of the list: unknown ones are errors, ignored ones are accepted and dropped."""
    return _element_schema(contact_list.value_fields, contact_list.ignored_keys, with_id=False)


def contacts_schema(contact_list: ListSpec, *, with_id: bool) -> CodeSchema:
    """A `contacts` array, for an update each with its id (docs/contacts.md#bulk-requests)."""
    return _bulk_schema(_element_schema(contact_list.value_fields, contact_list.ignored_keys, with_id=with_id))


class ContactFlagsSchema(ResponseSchema):
    """One flag per address."""

    email = fields.Boolean()
    mobile = fields.Boolean()


class ContactLinksSchema(SelfLinksSchema):
    """The links of a contact."""

    list = fields.Nested(LinkSchema)


class ContactSchema(ResponseSchema):
    """A contact. Besides these it has one property per list field, under the field's key."""

    class Meta:
        """The list fields, which differ from list to list."""

        unknown = INCLUDE

    id = Id()
    list_id = Id()
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    email = fields.String(allow_none=True)
    mobile = fields.String(allow_none=True)
    subscribed = fields.Nested(ContactFlagsSchema)
    blocked = fields.Nested(ContactFlagsSchema)
    is_active = fields.Boolean()
    double_opt_in = fields.Boolean()
    double_opt_in_time = Timestamp(allow_none=True)
    _links = fields.Nested(ContactLinksSchema)


ContactCollectionSchema = collection_of("contacts", ContactSchema)
