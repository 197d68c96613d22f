"""Contacts as text: the columns of a CSV file, the `key=value` arguments of commands, and forms of the console."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.addresses import ADDRESS_KINDS
from app.contacts.values import InvalidValue, clean_value
from app.csv_files.reader import NUMBER
from app.errors import CATALOGUE, FieldError
from app.lists.fields import ListSpec, ValueType, field_key
from app.settings import parse_switch

# Checks of contacts in files (the seed file, imports): the same as those of a request's schema.

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
    attributes = ", ".join([*contact_list.fields_by_key, "subscribed", *FLAGS])
    return FieldError(
        "unexpected_field", name, detail=f"{name} is not an attribute of the contacts. Attributes: {attributes}."
    )


SUBSCRIBED_KEYS = ("subscribed.email", "subscribed.mobile")
READ_ONLY_KEYS = (
    "id",
    "list_id",
    "blocked.email",
    "blocked.mobile",
    "double_opt_in_time",
    "creation_time",
    "last_modified_time",
)
"""Columns that an import ignores, so that an exported file can be imported again."""

Cells = Mapping[str, str]


def columns_of(contact_list: ListSpec) -> list[str]:
    """The columns of an export."""
    values = [field.key for field in contact_list.value_fields]
    return ["id", "email", "mobile", *values, *SUBSCRIBED_KEYS, *FLAGS, *READ_ONLY_KEYS[2:]]


def column_key(contact_list: ListSpec, head: str) -> str | None:
    """The attribute that a column header names, by key or by the name of a field; None for an unknown one."""
    keys = {*contact_list.fields_by_key, *contact_list.ignored_keys, *FLAGS, *SUBSCRIBED_KEYS, *READ_ONLY_KEYS}
    return next((key for key in (head.strip(), field_key(head)) if key in keys), None)


def contact_from_cells(contact_list: ListSpec, cells: Cells, *, clear: bool) -> tuple[dict[str, Any], list[FieldError]]:
    """The attributes in the cells and their errors; an empty cell clears the attribute or leaves it out."""
    attributes: dict[str, Any] = {}
    for key, text in cells.items():
        if key in READ_ONLY_KEYS or (not text and not clear):
            continue
        value = _value(contact_list, key, text)
        if key in SUBSCRIBED_KEYS:
            attributes.setdefault("subscribed", {})[key.partition(".")[2]] = value
        else:
            attributes[key] = value
    return check_attributes(contact_list, attributes)


def _value(contact_list: ListSpec, key: str, text: str) -> Any:
    """The value of the text. A text that cannot be converted is left as it is, and rejected by the checks."""
    try:
        if key in FLAGS or key in SUBSCRIBED_KEYS:
            return parse_switch(text)
        field = contact_list.fields_by_key.get(key)
        if field is not None and field.value_type is ValueType.NUMBER and text:
            return _number(text)
    except ValueError:
        return text
    return text or None


def _number(text: str) -> int | float:
    """A number as in JSON. Python itself would also accept `1_000`, ` 12` and digits of other scripts."""
    match = NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("not a number")
    return float(text) if match["part"] else int(text)


def flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested attributes under dotted names."""
    flattened: dict[str, Any] = {}
    for name, value in attributes.items():
        flattened.update(
            {f"{name}.{part}": part_value for part, part_value in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return flattened
