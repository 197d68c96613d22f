"""Checks of contacts in files (the seed file, imports): the same that a request's schema makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.contacts.values import InvalidValue, clean_value
from app.errors import CATALOGUE, FieldError
from app.lists.fields import ADDRESS_KEYS, FieldSpec, ListSpec

FLAGS = ("is_active", "double_opt_in")
ADDRESSES = {key: FieldSpec(0, key, key, type_) for type_, key in ADDRESS_KEYS.items()}


def fields_by_key(lst: ListSpec) -> dict[str, FieldSpec]:
    """The attributes that have a value: the addresses and the fields of the list."""
    return {**ADDRESSES, **{field.key: field for field in lst.value_fields}}


def check_attributes(lst: ListSpec, described: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """The attributes as the use cases take them, and their errors."""
    fields = fields_by_key(lst)
    attributes: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, value in described.items():
        if name in fields:
            try:
                attributes[name] = clean_value(fields[name], value)
            except InvalidValue as error:
                errors.append(FieldError(error.code, name, detail=error.detail))
        elif name not in lst.ignored_keys:
            errors += _attribute_errors(lst, name, value)
            attributes[name] = value
    return attributes, errors


def _attribute_errors(lst: ListSpec, name: str, value: Any) -> Iterator[FieldError]:
    if name in FLAGS:
        yield from _flag_errors(name, value)
    elif name == "subscribed" and not isinstance(value, Mapping):
        yield FieldError("invalid_object", name)
    elif name == "subscribed":
        for kind, flag in value.items():
            yield from (
                _flag_errors(f"subscribed.{kind}", flag) if kind in ADDRESSES else [_unknown(lst, f"subscribed.{kind}")]
            )
    else:
        yield _unknown(lst, name)


def _flag_errors(name: str, value: Any) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield FieldError("invalid_boolean", name, detail=CATALOGUE["invalid_boolean"].developer_message)


def _unknown(lst: ListSpec, name: str) -> FieldError:
    known = ", ".join([*fields_by_key(lst), "subscribed", *FLAGS])
    return FieldError("unexpected_field", name, detail=f"{name} is no attribute of the list's contacts: {known}.")
