"""The form of a contact: an input for each field of its list, and what it says as text
(docs/console.md#lists-and-contacts). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.addresses import ADDRESS_KINDS
from app.console.contacts import HIDDEN, Item
from app.contacts.by_hand import ContactActs, Named
from app.contacts.cells import FLAGS, contact_from_cells
from app.contacts.read import get_contact
from app.errors import ServiceError
from app.lists.fields import FieldSpec, ListSpec, ValueType
from app.query.conditions import Query

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


# Creating, changing and deleting contacts in the console, as the API and the command line do
# (docs/console.md#lists-and-contacts).


@dataclass(frozen=True, slots=True)
class ContactChanges:
    """Changes of contacts of a list, as forms say them. All raise the errors of the acts."""

    acts: ContactActs

    @property
    def contact_list(self) -> ListSpec:
        """The list of the contacts."""
        return self.acts.contact_list

    def add(self, cells: Mapping[str, str]) -> int:
        """Creates a contact; returns its id."""
        return self.acts.create(self._attributes(cells, clear=False))

    def write(self, contact_id: int, cells: Mapping[str, str]) -> None:
        """Writes the attributes that differ from those of the contact; an empty one clears."""
        item = self._item(contact_id)
        changed = {key: text for key, text in cells.items() if text != text_of(item[key])}
        if changed:
            self.acts.update(_named(item), self._attributes(changed, clear=True))

    def subscribe(self, contact_id: int, kind: str, subscribed: bool) -> None:
        """Subscribes an address of the contact to the list, or unsubscribes it from the list. Raises `invalid_string`
        for one that it does not have."""
        item = self._item(contact_id)
        if kind not in ADDRESS_KINDS or item[kind] is None:
            raise ServiceError("invalid_string", field="kind", detail=f"The contact has no address {kind!r}.")
        self.acts.update(_named(item), {"subscribed": {kind: subscribed}})

    def remove(self, contact_id: int) -> None:
        """Deletes the contact."""
        self.acts.delete(_named(self._item(contact_id)))

    def _item(self, contact_id: int) -> Item:
        return get_contact(self.acts.transaction, self.contact_list, contact_id, Query())

    def _attributes(self, cells: Mapping[str, str], *, clear: bool) -> Mapping[str, Any]:
        attributes, errors = contact_from_cells(self.contact_list, cells, clear=clear)
        if errors:
            raise ServiceError.of(errors)
        return attributes


def _named(item: Item) -> Named:
    return Named(item["id"], item["email"], item["mobile"])
