"""Checks of plain data, as YAML and JSON give it, that know the path of the value they check, such as
`steps[2].branch.within` or `accounts[0].lists[1].fields[2].type`. Pure.

A check takes a value and its path, and returns the value for the use cases or raises `ServiceError`, whose field is the
path. A mapping and a list go on after a wrong value, and raise all errors together; `Record.read` raises none of them,
so that what could be read is checked further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, NoReturn

from app.clock import DATE_FORM, HOUR_FORM, OFFSET_FORM, SIXTY_FORM
from app.errors import ErrorCollector, FieldError, ServiceError
from app.names import check_name

Check = Callable[[Any, str], Any]
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MOMENT = re.compile(rf"{DATE_FORM}(?:[T ]{HOUR_FORM}:{SIXTY_FORM}(?::{SIXTY_FORM})?(?:Z|[+-]{OFFSET_FORM})?)?")
LONGEST_TEXT = 2000
PATH_PART = re.compile(r"[^.\[\]]+")


def refuse(path: str, code: str, detail: str) -> NoReturn:
    """Raises `ServiceError` for the value at the path."""
    raise ServiceError(code, field=path or None, detail=detail)


def joined(path: str, key: object) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else str(key)


def text(value: Any, path: str) -> str:
    """Text that both databases can store, as it is."""
    if isinstance(value, int | float | date) and not isinstance(value, bool):
        refuse(path, "invalid_string", f"must be text: write '{value}' in quotes")
    if not isinstance(value, str):
        refuse(path, "invalid_string", f"must be text, not {kind_of(value)}")
    if UNSTORABLE.search(value):
        refuse(path, "invalid_string", "contains a character that cannot be stored")
    return value


def nonblank_text(value: Any, path: str) -> str:
    """Text that is not blank, without spaces around it."""
    given = text(value, path)
    if len(given) > LONGEST_TEXT:
        refuse(path, "too_long", f"has more than {LONGEST_TEXT} characters")
    if not (stripped := given.strip()):
        refuse(path, "not_empty", "must not be empty")
    return stripped


def name(value: Any, path: str) -> str:
    """The name of an object, by the rules of all names."""
    try:
        return check_name(nonblank_text(value, path))
    except ServiceError as error:
        refuse(path, error.code, error.errors[0].detail or "cannot be a name")


def name_or_id(value: Any, path: str) -> str:
    """What names an object: its name, or its id, as a number or as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return nonblank_text(value, path)


def flag(value: Any, path: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        refuse(path, "invalid_boolean", f"must be true or false, not {kind_of(value)}")
    return value


def true(value: Any, path: str) -> bool:
    """The value of a key that can only be there or not."""
    if value is not True:
        refuse(path, "invalid_boolean", "must be true")
    return True


def number(value: Any, path: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(path, "invalid_number", f"must be a number, not {kind_of(value)}")
    return float(value)


def moment(value: Any, path: str) -> datetime:
    """A date (its first second in UTC) or a date and time (in UTC if it has no zone)."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value if MOMENT.fullmatch(value) else "")
        except ValueError:
            refuse(path, "invalid_date", f"must be a date such as 2027-01-31, not {value!r}")
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    refuse(path, "invalid_date", f"must be a date such as 2027-01-31, not {kind_of(value)}")


def one_of(options: tuple[str, ...]) -> Check:
    """A check that the value is one of these texts."""

    def option(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in options:
            description = value if isinstance(value, str) else kind_of(value)
            refuse(path, "invalid_string", f"must be one of {', '.join(options)}, not {description[:LONGEST_TEXT]}")
        return value

    return option


def nullable(check: Check) -> Check:
    """Null, which clears the attribute, or a value that the check accepts."""
    return lambda value, path: None if value is None else check(value, path)


def each(check: Check) -> Check:
    """A list whose items the check accepts; null is an empty list."""

    def items(value: Any, path: str) -> list[Any]:
        return [] if value is None else _checked(_list(value, path), path, check)

    return items


def some(check: Check, most: int) -> Check:
    """A list of 1 to `most` items that the check accepts, as a tuple."""

    def items(value: Any, path: str) -> tuple[Any, ...]:
        given = _list(value, path)
        if not given:
            refuse(path, "not_empty", "must not be empty")
        if len(given) > most:
            refuse(path, "too_long", f"has {len(given)} items; at most {most} are accepted")
        return tuple(_checked(given, path, check))

    return items


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        refuse(path, "invalid_array", f"must be a list, not {kind_of(value)}")
    return value


def _checked(items: Iterable[Any], path: str, check: Check) -> list[Any]:
    """The items as the check returns them; the errors of all are raised together."""
    errors, checked = ErrorCollector(), []
    for index, item in enumerate(items):
        try:
            checked.append(check(item, f"{path}[{index}]"))
        except ServiceError as error:
            errors.errors += error.errors
    errors.raise_any()
    return checked


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. What is left out is left out of the result; so is null, unless `null` says that the
    checks take it."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)
    null: bool = False

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
                    detail = f"is unknown here; known: {', '.join(checks)}"
                    refuse(joined(path, str(key)[:LONGEST_TEXT]), "unexpected_field", detail)
                if item is not None or (self.null and key not in self.required):
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
