"""Fast load returns the same as marshmallow for valid elements, and leaves the others to it (schemas/base.py)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, ValidationError, fields, post_load, validate

from app.errors import FieldError, ServiceError
from app.lists.fields import FIELD_TYPES, FieldSpec, ListSpec, field_key
from schemas.base import CodeSchema, load, located
from schemas.contacts import contact_schema, contacts_schema
from schemas.fields import Array, Boolean, Collection, Integer, Number, Object, String
from schemas.sends import EmailSendSchema
from tests.support.cases import each

Body = dict[str, Any]

OPTIONS = ("one", "two")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPECS = tuple(
    FieldSpec(number, field_key(type_), type_, type_, OPTIONS if type_ in ("Dropdown", "Checkbox") else ())
    for number, type_ in enumerate(FIELD_TYPES)
)
IGNORED = FieldSpec(99, "limit", "Limit", "Text Field")
LIST = ListSpec(1, 1, "All", False, False, (), NOW, NOW, (*SPECS, IGNORED))

EMAILS = st.sampled_from(["ann@example.com", "Jürgen@bücher.example", "ann", "", "a@b@c.example"])
MOBILES = st.sampled_from(["61411111111", "12025550123", "0411111111", "", "390612345678"])
TEXTS = st.sampled_from(
    ["", "one", "one,two", "x\x00", "ä" * 10_001, "2026-01-31", "2026-02-30", "2026-01-31T24:00:00"]
)
WEB = st.sampled_from(["https://example.com/a", "ftp://example.com", "http://a b"])
NUMBERS = st.sampled_from([0, -1, 1.5, 2**63 - 1, 2**63, 1e308, True, False])
ANYTHING = st.one_of(st.none(), EMAILS, MOBILES, TEXTS, WEB, NUMBERS, st.just([]), st.just({}), st.just([None]))
FLAGS = st.dictionaries(st.sampled_from(["email", "mobile", "other"]), st.booleans() | ANYTHING, max_size=2)
NAMES = [*(spec.key for spec in LIST.value_fields), "limit", "unknown"]
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(1, 9),
    "email": EMAILS,
    "mobile": MOBILES,
    "subscribed": FLAGS,
    "is_active": st.booleans(),
    "double_opt_in": st.booleans(),
    "first_name": TEXTS,
    "number": NUMBERS,
    "date_of_birth": TEXTS,
    "date_picker": TEXTS,
    "checkbox": TEXTS,
}
CONTACTS = st.one_of(
    st.fixed_dictionaries({}, optional=RIGHT),
    st.dictionaries(st.sampled_from([*RIGHT, *NAMES]), ANYTHING, max_size=6),
)
BODIES = st.one_of(
    st.fixed_dictionaries({"contacts": st.lists(CONTACTS | ANYTHING, max_size=3)}),
    st.fixed_dictionaries({"contacts": st.lists(st.fixed_dictionaries({}, optional=RIGHT), min_size=1, max_size=3)}),
    st.dictionaries(st.sampled_from(["contacts", "other"]), ANYTHING, max_size=2),
)


def errors_of(body: Body, schema: CodeSchema) -> list[FieldError]:
    """The errors of marshmallow alone."""
    try:
        schema.load(body)
    except ValidationError as error:
        return located(error.messages, body)
    return []


def agree(schema: CodeSchema, body: Body) -> None:
    """Checks that the fast load and marshmallow agree. Both return the same, down to the types of the values, or both
    refuse with the same errors."""
    errors = errors_of(body, schema)
    assert schema.fast_load is not None
    if errors:
        with pytest.raises(ValidationError):
            schema.fast_load(body, "", body)
        with pytest.raises(ServiceError) as refused:
            load(schema, body)
        assert refused.value.errors == ServiceError.of(errors).errors
    else:
        assert repr(schema.fast_load(body, "", body)) == repr(schema.load(body)) == repr(load(schema, body))


@given(BODIES, st.booleans())
def test_bodies_with_many_contacts_load_alike(body: Body, with_id: bool) -> None:
    agree(contacts_schema(LIST, with_id=with_id), body)


@given(CONTACTS)
def test_one_contact_loads_alike(body: Body) -> None:
    agree(contact_schema(LIST), body)


@given(st.sampled_from(list(FIELD_TYPES)), ANYTHING)
def test_every_field_type_loads_alike(type_: str, value: Any) -> None:
    agree(contacts_schema(LIST, with_id=False), {"contacts": [{field_key(type_): value}]})


class InnerSchema(CodeSchema):
    """Required and nullable attributes, and arrays of plain values."""

    name = String(required=True, least=1, most=5)
    score = Number(allow_none=True, least=0, most=2)
    numbers = Array(Integer(), most=2, allow_none=True)
    holes = Array(Integer(allow_none=True), most=2)


class OuterSchema(CodeSchema):
    """Nested objects."""

    inner = Object(InnerSchema, allow_none=True)
    flag = Boolean(required=True)


class FilledSchema(CodeSchema):
    """All of the above, without the element that prevents fast load."""

    class Meta:
        """An array of nullable elements is left to marshmallow."""

        exclude = ("inner.holes",)

    inner = Object(InnerSchema, allow_none=True)
    flag = Boolean(required=True)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "flag": st.booleans() | ANYTHING,
            "inner": st.none()
            | st.fixed_dictionaries(
                {},
                optional={
                    "name": TEXTS,
                    "score": NUMBERS | st.none(),
                    "numbers": st.lists(NUMBERS | st.none(), max_size=3) | ANYTHING,
                },
            ),
        },
    )
)
def test_required_nullable_and_nested_attributes_load_alike(body: Body) -> None:
    agree(FilledSchema(), body)


class AfterwardsSchema(CodeSchema):
    """A schema with a hook after loading."""

    flag = Boolean()

    @post_load
    def count(self, data: Body, **_: Any) -> Body:
        """Does what no field declares."""
        return {**data, "count": len(data)}


class InsideSchema(CodeSchema):
    """Contains such a schema."""

    inner = Object(AfterwardsSchema)


class SparseSchema(Schema):
    """Nullable elements, a default, a validator, a data key, another kind of array."""

    holes = Array(Integer(allow_none=True), most=2)
    given = Boolean(load_default=True)
    checked = Integer(validate=validate.Range(0, 1))
    renamed = Integer(data_key="number")
    collected = Collection(InnerSchema, most=2)


@pytest.mark.parametrize("schema", [OuterSchema(), AfterwardsSchema(), InsideSchema(), EmailSendSchema()])
def test_a_schema_with_hooks_is_left_to_marshmallow(schema: CodeSchema) -> None:
    assert schema.fast_load is None


@each("name", SparseSchema().fields)
def test_a_field_that_overrides_more_than_deserialize_is_left_to_marshmallow(name: str) -> None:
    field: fields.Field[Any] = SparseSchema._declared_fields[name]
    assert CodeSchema.from_dict({name: field})().fast_load is None  # type: ignore[attr-defined]
