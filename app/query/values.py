"""Parses the values of filters into typed alternatives (docs/querying.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from app.addresses import written_forms
from app.ids import UUID
from app.query.conditions import After, Alternative, Before, Between, Equals, IsNull
from app.query.fields import Filter, FilterType
from app.query.times import day_span, end_instant_span, instant_span, local_span

INTEGER = re.compile(r"-?[0-9]+")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
BOOLEANS = {"true": True, "false": False}
SEPARATOR = re.compile(r"(?<!\\),")
ENCODED_COMMA = re.compile("%2c", re.IGNORECASE)

EXPECTED_VALUES = {
    FilterType.INTEGER: "an integer",
    FilterType.FLOAT: "a number",
    FilterType.STRING: "a string",
    FilterType.EMAIL: "an email address",
    FilterType.UUID: "a uuid",
    FilterType.BOOLEAN: "true or false",
    FilterType.TIMESTAMP: "a timestamp (YYYY-MM-DDTHH:MM:SSZ, with an offset such as +1000 or without one) or a date "
    "(YYYY-MM-DD)",
    FilterType.DATE: "a date (YYYY-MM-DD)",
    FilterType.DATETIME: "a date (YYYY-MM-DD) or a date and time (YYYY-MM-DDTHH:MM:SS)",
    FilterType.LABEL: "a text that is not empty",
}


def expected_form(filter_: Filter) -> str:
    """The accepted form, for error messages."""
    return f"one of {', '.join(filter_.options)}" if filter_.type is FilterType.ENUM else EXPECTED_VALUES[filter_.type]


def read_value(text: str, filter_: Filter, zone: ZoneInfo | None) -> tuple[Alternative, ...]:
    """The alternatives of a value of `=` or `:ne`; an empty value is null or the empty string.

    There are none if no row can have the value. Raises ValueError for a value that is not of the filter's type.
    """
    if not text and filter_.type is FilterType.LABEL:
        raise ValueError("an empty label")
    if not text:
        return (IsNull(), Equals("")) if filter_.type in (FilterType.STRING, FilterType.EMAIL) else (IsNull(),)
    return _parse_single(text, filter_, zone)


def read_element(text: str, filter_: Filter, zone: ZoneInfo | None) -> tuple[Alternative, ...]:
    """The alternatives of one element of `:in`: a value, or a range if the type has an order.

    None and ValueError as in `read_value`, and ValueError for an empty element.
    """
    if not text:
        raise ValueError("an empty element")
    if filter_.type in SPANS and ".." in text:
        return _range(text, filter_.type, zone)
    return _parse_single(text, filter_, zone)


def split_list(text: str) -> list[str]:
    r"""The elements of a comma list; a comma inside one is written `\,` or `%2C` (docs/querying.md#values-by-type).

    A backslash before any other character is a plain backslash.
    """
    return [ENCODED_COMMA.sub(",", part.replace("\\,", ",")) for part in SEPARATOR.split(text)]


def read_integer(text: str) -> int:
    """An integer; one far beyond 64 bits is replaced by another one beyond 64 bits. Raises ValueError for any other
    form."""
    if not INTEGER.fullmatch(text):
        raise ValueError("not an integer")
    digits = text.lstrip("-").lstrip("0")
    # Python refuses to convert thousands of digits, because that takes quadratic time.
    size = int(digits or "0") if len(digits) < 20 else 2**64
    return -size if text.startswith("-") else size


def fits_64_bits(number: int) -> bool:
    """Whether a column can store the integer."""
    return MIN_INTEGER <= number <= MAX_INTEGER


def _parse_single(text: str, filter_: Filter, zone: ZoneInfo | None) -> tuple[Alternative, ...]:
    if filter_.type in SPANS:
        first, last = SPANS[filter_.type](text, zone)
        return _within_64_bits(Equals(first) if first == last else Between(first, last))
    if filter_.type is FilterType.BOOLEAN and text.lower() in BOOLEANS:
        return (Equals(BOOLEANS[text.lower()]),)
    if filter_.type in (FilterType.STRING, FilterType.LABEL) or (
        filter_.type is FilterType.ENUM and text in filter_.options
    ):
        return (Equals(text),) if _can_be_stored(text) else ()
    if filter_.type is FilterType.EMAIL:
        return tuple(map(Equals, written_forms(text))) if _can_be_stored(text) else ()
    if filter_.type is FilterType.UUID and UUID.fullmatch(text):
        return (Equals(text.lower()),)
    raise ValueError("not a value of this type")


def _range(text: str, filter_type: FilterType, zone: ZoneInfo | None) -> tuple[Alternative, ...]:
    low, _, high = text.partition("..")
    span, end_span = SPANS[filter_type], END_SPANS.get(filter_type, SPANS[filter_type])
    if low and high:
        return _within_64_bits(Between(span(low, zone)[0], end_span(high, zone)[1]))
    if low:
        return _within_64_bits(After(span(low, zone)[1]))
    return _within_64_bits(Before(end_span(high, zone)[0]))


def _within_64_bits(alternative: Alternative) -> tuple[Alternative, ...]:
    """The alternative restricted to 64-bit integers; none if no row can match (docs/querying.md#values-by-type)."""
    match alternative:
        case Equals(int() as value):
            return (alternative,) if fits_64_bits(value) else ()
        case Between(int() as low, int() as high):
            low, high = max(low, MIN_INTEGER), min(high, MAX_INTEGER)
            return (Between(low, high),) if low <= high else ()
        case After(int() as low) if not fits_64_bits(low):
            return (Between(MIN_INTEGER, MAX_INTEGER),) if low < MIN_INTEGER else ()
        case Before(int() as high) if not fits_64_bits(high):
            return (Between(MIN_INTEGER, MAX_INTEGER),) if high > MAX_INTEGER else ()
    return (alternative,)


def _can_be_stored(text: str) -> bool:
    """Whether a row can have the value: PostgreSQL cannot store a null byte in text, and neither database a lone
    surrogate."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _integers(text: str, _zone: ZoneInfo | None) -> tuple[int, int]:
    number = read_integer(text)
    return number, number


def _numbers(text: str, _zone: ZoneInfo | None) -> tuple[float, float]:
    if not NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return float(text), float(text)


Span = Callable[[str, ZoneInfo | None], tuple[Any, Any]]

SPANS: dict[FilterType, Span] = {
    FilterType.INTEGER: _integers,
    FilterType.FLOAT: _numbers,
    FilterType.TIMESTAMP: instant_span,
    FilterType.DATE: day_span,
    FilterType.DATETIME: local_span,
}
"""The types that have an order, and so ranges: text -> the first and the last value of its span."""

END_SPANS: dict[FilterType, Span] = {FilterType.TIMESTAMP: end_instant_span}
"""Types whose end of a range is parsed differently."""
