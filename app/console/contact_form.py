"""The form of a contact: an input for each field of its list, and what it says as text
(docs/console.md#lists-and-contacts). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.console.contacts import HIDDEN, Item
from app.contacts.cells import FLAGS
from app.lists.fields import FieldSpec, ListSpec, ValueType

LONG = ("Comment Field", "HTML Snippet")
"""Types of fields that have several lines."""
KEYBOARDS = {
    ValueType.EMAIL: "email",
    ValueType.MOBILE: "tel",
    ValueType.URL: "url",
    ValueType.NUMBER: "decimal",
}
"""Type of values -> the keyboard of a telephone for it. Browsers that check an address write some domains anew."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the form: `kind` is `text`, `date`, `password`, `lines` or `choice`; `options` are those of the list
    field."""

    key: str
    label: str
    kind: str
    value: str
    options: Sequence[str] = ()
    keyboard: str = "text"


def inputs_of(contact_list: ListSpec, item: Item | None, form: Mapping[str, str] | None = None) -> list[Input]:
    """The form of a contact, or of a new one: with what `form` says already, else with the values of the contact."""
    found = []
    for field in contact_list.fields:
        if field.is_address or field.key in contact_list.value_keys:
            stored = text_of(None if item is None else item[field.key])
            found.append(_input(field, stored if form is None else form.get(field.key, "")))
    return found


def _input(field: FieldSpec, value: str) -> Input:
    options = field.options
    if options and field.value_type is ValueType.OPTION and value and value not in options:
        options = (*options, value)  # The option was removed: the value stays until another one is chosen.
    keyboard = KEYBOARDS.get(field.value_type, "text")
    return Input(field.key, field.name, _kind(field, value), value, options, keyboard)


def _kind(field: FieldSpec, value: str) -> str:
    if field.options and field.value_type is ValueType.OPTION:
        return "choice"
    if field.type in LONG or "\n" in value:
        return "lines"
    if field.value_type is ValueType.DATE:
        return "date"
    return "password" if field.type == HIDDEN else "text"


def text_of(value: Any) -> str:
    """A value as the form has it; browsers write ends of lines in one way."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value).replace("\r\n", "\n")


def cells_of(contact_list: ListSpec, form: Mapping[str, str]) -> dict[str, str]:
    """What a form says, by attribute."""
    keys = [*(one.key for one in inputs_of(contact_list, None)), *FLAGS]
    return {key: form[key].replace("\r\n", "\n") for key in keys if key in form}
