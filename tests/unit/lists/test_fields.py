"""Field types, the rule for keys and reserved keys (docs/contacts.md#list-fields)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from app.lists.fields import FIELD_TYPES, RESERVED_KEYS, FieldSpec, ListSpec, field_key, is_reserved
from tests.support.cases import each

MOMENT = datetime(2026, 1, 31, tzinfo=UTC)


def a_list(*fields: FieldSpec) -> ListSpec:
    return ListSpec(1, 1, "List", False, False, (), MOMENT, MOMENT, fields)


@each(
    ("name", "key"),
    [
        ("Reply-To", "reply_to"),
        ("First Name", "first_name"),
        ("Postcode or ZIP Code", "postcode_or_zip_code"),
        ("Website Address / URL", "website_address_url"),
        ("  padded  ", "padded"),
        ("__private__", "private"),
        ("a -- b", "a_b"),
        ("Größe 2", "gr_e_2"),
        ("日本", ""),
    ],
)
def test_the_key_is_derived_from_the_name(name: str, key: str) -> None:
    assert field_key(name) == key


@given(st.text(max_size=60))
def test_a_key_has_the_allowed_characters_and_is_its_own_key(name: str) -> None:
    key = field_key(name)
    assert re.fullmatch(r"([a-z0-9]([a-z0-9_]*[a-z0-9])?)?", key)
    assert field_key(key) == key


def test_every_type_of_the_specification_exists() -> None:
    assert len(FIELD_TYPES) == 27
    assert {"Postcode or ZIP Code", "Website Address / URL", "HTML Snippet", "File Upload"} <= set(FIELD_TYPES)


@each("key", [*sorted(RESERVED_KEYS), "_links", "_tz", "_anything", ""])
def test_reserved_keys(key: str) -> None:
    assert is_reserved(key)


@each("key", ["first_name", "name", "type", "subscribed_email", "ids"])
def test_other_keys_are_allowed(key: str) -> None:
    assert not is_reserved(key)


def test_the_identifier_is_the_email_or_else_the_mobile() -> None:
    email, mobile = FieldSpec(1, "email", "Mail", "Email"), FieldSpec(2, "mobile", "Cell", "Mobile Phone")
    assert a_list(mobile, email).identifier == "email"
    assert a_list(mobile).identifier == "mobile"
    assert a_list().identifier is None


def test_address_fields_and_reserved_ones_are_no_properties() -> None:
    contact_list = a_list(
        FieldSpec(1, "email", "Work Mail", "Email"),
        FieldSpec(2, "first_name", "First Name", "First Name"),
        FieldSpec(3, "limit", "Limit", "Number"),
        FieldSpec(4, "mobile", "Mobile", "Text Field"),
    )
    assert [field.key for field in contact_list.value_fields] == ["first_name"]
    assert contact_list.ignored_keys == {"limit", "mobile"}
    assert contact_list.has_email
    assert not contact_list.has_mobile
