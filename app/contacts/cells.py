"""Contacts as text: the columns of a CSV file, the `key=value` arguments of commands, and forms of the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.contacts.attributes import FLAGS, check_attributes
from app.csv_files.cells import NUMBER
from app.errors import FieldError
from app.lists.fields import ListSpec, ValueType, field_key
from app.settings import parse_switch

SUBSCRIBED = ("subscribed.email", "subscribed.mobile")
READ_ONLY = (
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
    return ["id", "email", "mobile", *values, *SUBSCRIBED, *FLAGS, *READ_ONLY[2:]]


def column_key(contact_list: ListSpec, head: str) -> str | None:
    """The attribute that a column header names, by key or by the name of a field; None for an unknown one."""
    known = {*contact_list.fields_by_key, *contact_list.ignored_keys, *FLAGS, *SUBSCRIBED, *READ_ONLY}
    return next((key for key in (head.strip(), field_key(head)) if key in known), None)


def contact_from_cells(contact_list: ListSpec, cells: Cells, *, clear: bool) -> tuple[dict[str, Any], list[FieldError]]:
    """The attributes in the cells and their errors; an empty cell clears the attribute or leaves it out."""
    attributes: dict[str, Any] = {}
    for key, text in cells.items():
        if key in READ_ONLY or (not text and not clear):
            continue
        value = _value(contact_list, key, text)
        if key in SUBSCRIBED:
            attributes.setdefault("subscribed", {})[key.partition(".")[2]] = value
        else:
            attributes[key] = value
    return check_attributes(contact_list, attributes)


def _value(contact_list: ListSpec, key: str, text: str) -> Any:
    """The value of the text. A text that cannot be converted is left as it is, and rejected by the checks."""
    try:
        if key in FLAGS or key in SUBSCRIBED:
            return parse_switch(text)
        field = contact_list.fields_by_key.get(key)
        if field is not None and field.value_type is ValueType.NUMBER and text:
            return _number(text)
    except ValueError:
        return text
    return text or None


def _number(text: str) -> int | float:
    """A number as in JSON. Python itself would also accept `1_000`, ` 12` and digits of other scripts."""
    found = NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("not a number")
    return float(text) if found["part"] else int(text)


def flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested attributes under dotted names."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        found.update(
            {f"{name}.{part}": one for part, one in value.items()} if isinstance(value, dict) else {name: value}
        )
    return found
