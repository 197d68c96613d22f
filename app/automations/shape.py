"""Checks of plain data, as YAML and JSON give it, that know the path of the value they check, such as
`steps[2].branch.within`. Pure.

A check takes a value and its path, and returns the value as the definition has it or raises `ServiceError`, whose field
is the path. A mapping and a list go on after a wrong value, and raise all errors together; `Record.read` raises none of
them, so that what could be read is checked further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NoReturn

from app.errors import ErrorCollector, FieldError, ServiceError
from app.names import check_name

Check = Callable[[Any, str], Any]
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
LONGEST_TEXT = 2000
PATH_PART = re.compile(r"[^.\[\]]+")


def refuse(path: str, code: str, detail: str) -> NoReturn:
    """Raises `ServiceError` for the value at the path."""
    raise ServiceError(code, field=path or None, detail=detail)


def joined(path: str, key: object) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else str(key)


def text(value: Any, path: str) -> str:
    """Text that both databases can store."""
    if isinstance(value, int | float | date) and not isinstance(value, bool):
        refuse(path, "invalid_string", f"must be text: write '{value}' in quotes")
    if not isinstance(value, str):
        refuse(path, "invalid_string", f"must be text, not {kind_of(value)}")
    if not value.strip():
        refuse(path, "not_empty", "must not be empty")
    if len(value) > LONGEST_TEXT:
        refuse(path, "too_long", f"has more than {LONGEST_TEXT} characters")
    if UNSTORABLE.search(value):
        refuse(path, "invalid_string", "holds a character that cannot be stored")
    return value.strip()


def name(value: Any, path: str) -> str:
    """The name of an object, by the rules of all names."""
    try:
        return check_name(text(value, path))
    except ServiceError as error:
        refuse(path, error.code, error.errors[0].detail or "cannot be a name")


def name_or_id(value: Any, path: str) -> str:
    """What names an object: its name, or its id, as a number or as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value, path)


def true(value: Any, path: str) -> bool:
    """The value of a key that can only be there or not."""
    if value is not True:
        refuse(path, "invalid_boolean", "must be true")
    return True


def one_of(options: tuple[str, ...]) -> Check:
    """One of these texts."""

    def option(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in options:
            shown = value if isinstance(value, str) else kind_of(value)
            refuse(path, "invalid_string", f"must be one of {', '.join(options)}, not {shown[:LONGEST_TEXT]}")
        return value

    return option


def each(check: Check, most: int) -> Check:
    """A list of 1 to `most` items that the check takes, as a tuple."""

    def items(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            refuse(path, "invalid_array", f"must be a list, not {kind_of(value)}")
        if not value:
            refuse(path, "not_empty", "must not be empty")
        if len(value) > most:
            refuse(path, "too_long", f"has {len(value)} items; at most {most} are accepted")
        errors, checked = ErrorCollector(), []
        for index, item in enumerate(value):
            try:
                checked.append(check(item, f"{path}[{index}]"))
            except ServiceError as error:
                errors.errors += error.errors
        errors.raise_any()
        return tuple(checked)

    return items


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. What is left out or null is left out of the result."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)

    def __call__(self, value: Any, path: str) -> dict[str, Any]:
        """The checked mapping."""
        errors = ErrorCollector()
        result = self.read(value, path, errors)
        errors.raise_any()
        return result

    def read(self, value: Any, path: str, errors: ErrorCollector) -> dict[str, Any]:
        """What can be read of the mapping; the errors of the rest are collected. An unknown key is one: it would have
        no effect. Keys that are missing are reported after the errors of those that are there
        (docs/requests.md#errors)."""
        given = mapping(value, path)
        checks = {**self.required, **self.optional}
        result = {}
        for key, item in given.items():
            try:
                if key not in checks:
                    detail = f"is unknown here; known are {', '.join(checks)}"
                    refuse(joined(path, str(key)[:LONGEST_TEXT]), "unexpected_field", detail)
                if item is not None:
                    result[key] = checks[key](item, joined(path, key))
            except ServiceError as error:
                errors.errors += error.errors
        for key in self.required:
            if given.get(key) is None:
                errors.add("required", field=joined(path, key), detail="is required")
        return result


def mapping(value: Any, path: str) -> dict[Any, Any]:
    """A mapping with any keys."""
    if not isinstance(value, dict):
        refuse(path, "invalid_object", f"must be a mapping, not {kind_of(value)}")
    return value


def kind_of(value: Any) -> str:
    """How an error names a value that is of the wrong type."""
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    kinds |= {date: "a date", datetime: "a date"}
    return kinds.get(type(value), "a number")


def in_document_order(document: Any, errors: Iterable[FieldError]) -> list[FieldError]:
    """The errors of what is there, as it is written in the document, then those of what is missing
    (docs/requests.md#errors)."""
    orders: dict[int, dict[str, int]] = {}

    def place(error: FieldError) -> tuple[bool, list[int]]:
        return error.code == "required", _position(document, error.field or "", orders)

    return sorted(errors, key=place)


def _position(document: Any, path: str, orders: dict[int, dict[str, int]]) -> list[int]:
    """The position of each part of the path among its siblings, as far as the document has it. `orders` keeps those of
    each mapping, by its identity."""
    positions: list[int] = []
    place = document
    for part in PATH_PART.findall(path):
        if isinstance(place, dict):
            if id(place) not in orders:
                orders[id(place)] = {str(key): position for position, key in enumerate(place)}
            position = orders[id(place)].get(part)
            place = place.get(part)
        else:
            position = int(part) if isinstance(place, list) and part.isdecimal() else None
            place = place[position] if position is not None and position < len(place) else None
        if position is None:
            break
        positions.append(position)
    return positions
