"""Field types, the rule for keys, and the list spec. Pure.

Two field types are attributes of every contact, whatever the field's name: Email is `email`, Mobile Phone is
`mobile`. Every other field is a property under its key, unless the key is reserved (docs/contacts.md#list-fields).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import cached_property
from typing import Literal, NamedTuple


class ValueType(Enum):
    """The type of a field's values (docs/contacts.md#list-fields)."""

    EMAIL = auto()
    MOBILE = auto()
    STRING = auto()
    URL = auto()
    OPTION = auto()
    """A string; one of the field's options if it has any."""
    OPTIONS = auto()
    """A string of comma-separated options."""
    DATE = auto()
    DATE_OR_DATETIME = auto()
    NUMBER = auto()


FIELD_TYPES: dict[str, ValueType] = {
    "Email": ValueType.EMAIL,
    "Mobile Phone": ValueType.MOBILE,
    "Phone Number": ValueType.STRING,
    "First Name": ValueType.STRING,
    "Last Name": ValueType.STRING,
    "Address Line": ValueType.STRING,
    "Suburb": ValueType.STRING,
    "Postcode or ZIP Code": ValueType.STRING,
    "Website Address / URL": ValueType.URL,
    "State": ValueType.STRING,
    "Gender": ValueType.STRING,
    "Country": ValueType.STRING,
    "Industry": ValueType.STRING,
    "Unsubscribe Reason": ValueType.STRING,
    "Unsubscribe Feedback": ValueType.STRING,
    "Text Field": ValueType.STRING,
    "Password Field": ValueType.STRING,
    "Dropdown": ValueType.OPTION,
    "Radio Buttons": ValueType.OPTION,
    "Comment Field": ValueType.STRING,
    "HTML Snippet": ValueType.STRING,
    "File Upload": ValueType.STRING,
    "Date of Birth": ValueType.DATE,
    "Date Picker": ValueType.DATE_OR_DATETIME,
    "Checkbox": ValueType.OPTIONS,
    "Currency": ValueType.NUMBER,
    "Number": ValueType.NUMBER,
}
"""Name of a field type -> the type of its values (docs/contacts.md#list-fields)."""

RANGES: dict[ValueType, Literal["number", "date"]] = {
    ValueType.NUMBER: "number",
    ValueType.DATE: "date",
    ValueType.DATE_OR_DATETIME: "date",
}
"""The types of values that have an order, and so ranges in filters."""

ADDRESS_KEYS = {"Email": "email", "Mobile Phone": "mobile"}
"""Field type -> the attribute of the contact that it stands for."""

RESERVED_KEYS = frozenset(
    {
        *("id", "list_id", "creation_time", "last_modified_time", "subscribed", "blocked", "is_active"),
        *("double_opt_in", "double_opt_in_time", "contacts", "fields", "expand", "limit", "offset", "order_by", "q"),
        "remove_unsubscribers",
        # A Text Field called Email would hide an attribute that every contact has.
        *("email", "mobile"),
    }
)
"""Keys whose fields are ignored: they mean something else on a contact or in a query
(docs/contacts.md#reserved-keys)."""

OTHER_CHARACTERS = re.compile(r"[^a-z0-9_]+")


def field_key(name: str) -> str:
    """The key of a field by its name: `Reply-To` becomes `reply_to` (docs/contacts.md#list-fields).

    Empty for a name without letters a to z and digits.
    """
    return OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


def is_reserved(key: str) -> bool:
    """Whether a list field with this key is ignored (docs/contacts.md#reserved-keys)."""
    return key in RESERVED_KEYS or key.startswith("_") or not key


class FieldSpec(NamedTuple):
    """One field of a list. The key of an Email field is `email` and of a Mobile Phone field `mobile`."""

    id: int
    key: str
    name: str
    type: str
    options: tuple[str, ...] = ()

    @property
    def value_type(self) -> ValueType:
        return FIELD_TYPES[self.type]

    @property
    def is_address(self) -> bool:
        """Whether the field is an attribute of the contact itself."""
        return self.type in ADDRESS_KEYS


@dataclass(frozen=True)
class ListSpec:
    """A list with its fields in their order."""

    id: int
    account_id: int
    name: str | None
    system: bool
    allow_duplicates: bool
    stop_words: tuple[str, ...]
    creation_time: datetime
    last_modified_time: datetime
    fields: tuple[FieldSpec, ...]
    has_automations: bool = False
    """Whether automations listen to its triggers."""
    has_digests: bool = False
    """Whether its account keeps suppressions under digests (docs/privacy.md#what-is-kept)."""

    @cached_property
    def has_email(self) -> bool:
        """Whether the list has a field of the type Email."""
        return any(field.value_type is ValueType.EMAIL for field in self.fields)

    @cached_property
    def has_mobile(self) -> bool:
        """Whether the list has a field of the type Mobile Phone."""
        return any(field.value_type is ValueType.MOBILE for field in self.fields)

    @cached_property
    def identifier(self) -> Literal["email", "mobile"] | None:
        """The attribute that distinguishes the list's contacts: the email, else the mobile
        (docs/contacts.md#identifiers)."""
        if self.has_email:
            return "email"
        return "mobile" if self.has_mobile else None

    @property
    def unique_kind(self) -> Literal["email", "mobile"] | None:
        """The kind of address that no two contacts of the list share; None if any may."""
        return None if self.allow_duplicates else self.identifier

    @cached_property
    def value_fields(self) -> tuple[FieldSpec, ...]:
        """The fields that are properties of a contact: neither its addresses nor those with a reserved key."""
        return tuple(field for field in self.fields if not field.is_address and not is_reserved(field.key))

    @cached_property
    def fields_by_key(self) -> dict[str, FieldSpec]:
        """The attributes that have a value: both addresses, whether or not the list has fields for them, and the
        fields."""
        addresses = {key: FieldSpec(0, key, key, type_) for type_, key in ADDRESS_KEYS.items()}
        return {**addresses, **{field.key: field for field in self.value_fields}}

    @cached_property
    def value_keys(self) -> frozenset[str]:
        """The keys of `value_fields`."""
        return frozenset(field.key for field in self.value_fields)

    @cached_property
    def ignored_keys(self) -> frozenset[str]:
        """Reserved keys that a field of the list has: writes to them are silently ignored
        (docs/contacts.md#reserved-keys)."""
        return frozenset(field.key for field in self.fields if not field.is_address and is_reserved(field.key))
