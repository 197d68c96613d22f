"""Filters and other parameters of queries.

A value matches what equals it, and None what is null. Other conditions are made by functions:

    client.groups.list(type="email", bounced=above(0))
    client.contacts.list(1, plan=any_of("gold", "silver"), creation_time=between(date(2026, 1, 1), date(2026, 1, 31)))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypedDict

Scalar = str | int | float | date | None
"""A datetime is a date, and a bool an int."""


@dataclass(frozen=True)
class Condition:
    """What a property must be, other than equal to a value."""

    operator: str
    text: str


Filter = Scalar | Condition


class ItemQuery(TypedDict, total=False):
    """What a single item takes: properties to return, the zone of times."""

    fields: Iterable[str]
    time_zone: str


class PageQuery(ItemQuery, total=False):
    """What all collections take: the size of a page, items to skip, and what a single item takes."""

    limit: int
    offset: int


def is_not(value: Scalar) -> Condition:
    """Any other value, and null; `is_not(None)` is any value but null."""
    return Condition("ne", text_of(value))


def any_of(*values: Filter) -> Condition:
    """Any of the values and ranges."""
    texts = [_element(value) for value in values]
    # A backslash before a comma is an escape, so that a value that ends in one can only be the last.
    return Condition("in", ",".join(sorted(texts, key=lambda text: text.endswith("\\"))))


def between(first: Scalar, last: Scalar) -> Condition:
    """From the first to the last, both included."""
    return Condition("in", f"{text_of(first)}..{text_of(last)}")


def above(value: Scalar) -> Condition:
    """More than the value, or later."""
    return Condition("in", f"{text_of(value)}..")


def below(value: Scalar) -> Condition:
    """Less than the value, or earlier."""
    return Condition("in", f"..{text_of(value)}")


def text_of(value: Scalar) -> str:
    """A value as the API reads it in a query."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        in_utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return in_utc.isoformat(timespec="seconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def pairs(parameters: Mapping[str, object], filters: Mapping[str, Filter] | None = None) -> list[tuple[str, str]]:
    """The parameters of a query. `filters` are for names that are no Python names, such as `subscribed.email`, or that
    a parameter of the method has."""
    return [_pair("_tz" if name == "time_zone" else name, value) for name, value in parameters.items()] + [
        _pair(name, value) for name, value in (filters or {}).items()
    ]


def _pair(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, Condition):
        return f"{name}:{value.operator}", value.text
    if value is None or isinstance(value, str | int | float | date):
        return name, text_of(value)
    if isinstance(value, Iterable):
        return name, ",".join(map(str, value))
    raise TypeError(f"{name} cannot be {value!r}")


def _element(value: Filter) -> str:
    if not isinstance(value, Condition):
        return text_of(value).replace(",", "\\,")
    if value.operator != "in":
        raise ValueError("any_of takes values and ranges")
    return value.text
