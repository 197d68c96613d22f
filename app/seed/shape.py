"""Checks of plain data that know the path of the value, as in `accounts[0].lists[1].fields[2].type`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any

from app.clock import DATE_FORM, HOUR_FORM, OFFSET_FORM, SIXTY_FORM
from app.errors import CATALOGUE, FieldError, ServiceError

MOMENT = re.compile(rf"{DATE_FORM}(?:[T ]{HOUR_FORM}:{SIXTY_FORM}(?::{SIXTY_FORM})?(?:Z|[+-]{OFFSET_FORM})?)?")

Check = Callable[[Any, str], Any]
"""Called with a value and its path; returns the value for the use cases, or raises `SeedError`."""


class SeedError(Exception):
    """An invalid seed file; the text is a line that begins with the invalid path, and such a line for each further
    error."""

    def __init__(self, path: str, message: str, further: Iterable[SeedError] = ()) -> None:
        super().__init__("\n       ".join((f"{path}: {message}" if path else message, *map(str, further))))
        self.path = path


def text(value: Any, path: str) -> str:
    """A string that both databases can store."""
    if isinstance(value, int | float | date) and not isinstance(value, bool):
        raise SeedError(path, f"must be text: write '{value}' in quotes")
    if not isinstance(value, str):
        raise SeedError(path, f"must be text, not {_kind(value)}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise SeedError(path, "contains a character that cannot be stored")
    return value


def flag(value: Any, path: str) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise SeedError(path, f"must be true or false, not {_kind(value)}")
    return value


def number(value: Any, path: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SeedError(path, f"must be a number, not {_kind(value)}")
    return float(value)


def moment(value: Any, path: str) -> datetime:
    """A date (its first second in UTC) or a date and time (in UTC if it has no zone)."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value if MOMENT.fullmatch(value) else "")
        except ValueError:
            raise SeedError(path, f"must be a date such as 2027-01-31, not {value!r}") from None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    raise SeedError(path, f"must be a date such as 2027-01-31, not {_kind(value)}")


def nullable(check: Check) -> Check:
    """Null, which clears the attribute, or a value that the check accepts."""
    return lambda value, path: None if value is None else check(value, path)


def each(check: Check) -> Check:
    """A list whose items the check accepts; an empty part of the file is an empty list."""

    def items(value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise SeedError(path, f"must be a list, not {_kind(value)}")
        return [check(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return items


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. Keys that the file omits are omitted from the result."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)

    def __call__(self, value: Any, path: str) -> dict[str, Any]:
        """The checked mapping. An unknown key is an error: it would have no effect."""
        if not isinstance(value, dict):
            raise SeedError(path, f"must be a mapping, not {_kind(value)}")
        checks = {**self.required, **self.optional}
        for key in value:
            if key not in checks:
                raise SeedError(joined(path, key), f"is unknown here; known are {', '.join(checks)}")
        for key in self.required:
            if value.get(key) is None:
                raise SeedError(joined(path, key), "is required")
        return {key: checks[key](item, joined(path, key)) for key, item in value.items()}


def joined(path: str, key: object) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else str(key)


@contextmanager
def located(path: str, paths: Mapping[str, str] | None = None, *, most: int = 1) -> Iterator[None]:
    """Turns the errors of a use case into a `SeedError` with the path of the entry; `most` of them are shown, a line
    each.

    `paths` maps attributes of the use case to the file's paths if the two have different names.
    """
    try:
        yield
    except ServiceError as error:
        first, *others = ((_error_path(path, one, paths or {}), _error_text(one)) for one in error.errors)
        more = f" (and {len(others)} more)" if others and most == 1 else ""
        raise SeedError(first[0], first[1] + more, (SeedError(*one) for one in others[: most - 1])) from None


def _error_text(error: FieldError) -> str:
    text = error.detail or CATALOGUE[error.code].developer_message
    return text.removeprefix(f"{error.field}: ")


def _error_path(path: str, error: FieldError, paths: Mapping[str, str]) -> str:
    if error.collection is not None:
        path = joined(path, f"{error.collection}[{error.index}]")
    field = error.field or ""
    for part in paths.get(field, field).split("."):
        path = f"{path}[{part}]" if part.isdigit() else joined(path, part) if part else path
    return path


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "a truth value", type(None): "nothing"}
    return kinds.get(type(value), f"the value {value}")
