"""Rules that a write of contacts must meet besides its schema (docs/contacts.md#order-of-errors)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from app.errors import FieldError, ServiceError, in_catalogue_order
from app.lists.fields import ListSpec


class ElementLocation(TypedDict, total=False):
    """The position of an element in a bulk request."""

    collection: str
    index: int


def element_location(index: int, bulk: bool) -> ElementLocation:
    """The location of an element, empty in the single form (docs/contacts.md#bulk-requests)."""
    return {"collection": "contacts", "index": index} if bulk else {}


def raise_in_order(errors: Sequence[FieldError]) -> None:
    """Raises all errors; the first is the one that is first in the documented tables
    (docs/contacts.md#order-of-errors)."""
    if errors:
        raise ServiceError.of(in_catalogue_order(errors))


def system_errors(contact_list: ListSpec, allow_system: bool) -> list[FieldError]:
    """A system list cannot be changed (docs/contacts.md#system-lists), except by seeding."""
    return [FieldError("list_not_mutable")] if contact_list.system and not allow_system else []


def address_errors(contact_list: ListSpec, contacts: Iterable[Mapping[str, Any]], bulk: bool) -> list[FieldError]:
    """Addresses of a kind that the list has no field for (docs/contacts.md#list-fields). Null writes nothing."""
    missing = [
        kind for kind, has in (("email", contact_list.has_email), ("mobile", contact_list.has_mobile)) if not has
    ]
    return [
        FieldError(f"field_{kind}_not_in_list", kind, **element_location(index, bulk))
        for index, attributes in enumerate(contacts)
        for kind in missing
        if attributes.get(kind) is not None
    ]
