"""Checks of contacts in files (the seed file, imports): the same as those of a request's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.addresses import ADDRESS_KINDS
from app.contacts.values import InvalidValue, clean_value
from app.errors import CATALOGUE, FieldError
from app.lists.fields import ListSpec

FLAGS = ("is_active", "double_opt_in")


def check_attributes(contact_list: ListSpec, described: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """The attributes as the use cases take them, and their errors."""
    fields = contact_list.fields_by_key
    attributes: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, value in described.items():
        if name in fields:
            try:
                attributes[name] = clean_value(fields[name], value)
            except InvalidValue as error:
                errors.append(FieldError(error.code, name, detail=error.detail))
        elif name not in contact_list.ignored_keys:
            errors += _attribute_errors(contact_list, name, value)
            attributes[name] = value
    return attributes, errors


def _attribute_errors(contact_list: ListSpec, name: str, value: Any) -> Iterator[FieldError]:
    if name in FLAGS:
        yield from _flag_errors(name, value)
    elif name == "subscribed" and not isinstance(value, Mapping):
        yield FieldError("invalid_object", name)
    elif name == "subscribed":
        for kind, flag in value.items():
            yield from (
                _flag_errors(f"subscribed.{kind}", flag)
                if kind in ADDRESS_KINDS
                else [_unknown(contact_list, f"subscribed.{kind}")]
            )
    else:
        yield _unknown(contact_list, name)


def _flag_errors(name: str, value: Any) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield FieldError("invalid_boolean", name, detail=CATALOGUE["invalid_boolean"].developer_message)


def _unknown(contact_list: ListSpec, name: str) -> FieldError:
    known = ", ".join([*contact_list.fields_by_key, "subscribed", *FLAGS])
    return FieldError("unexpected_field", name, detail=f"{name} is no attribute of the list's contacts: {known}.")
