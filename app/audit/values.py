"""What an entry shows of values: nothing that could be an address, and nothing long (docs/audit.md#what-is-not-in-it).
Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import urlsplit

import orjson

from app.clock import timestamp

MAX_VALUE_BYTES = 1000
"""Bytes of a value as JSON; of a longer one only the field is named."""
ADDRESS_MASK = "(address)"
MIN_DIGITS, MAX_DIGITS = 9, 15
"""How many digits a word has that may be a mobile number. A date has eight."""
PUNCTUATION = str.maketrans("", "", "+-()./,;:")


class Change(TypedDict, total=False):
    """One attribute that changed. A value that may not be shown is left out."""

    field: str
    old: Any
    new: Any


def shown_change(field: str, **values: Any) -> Change:
    """A change with its values `old` and `new`, as far as they fit into an entry."""
    shown_values = {name: _json_value(value) for name, value in values.items()}
    is_short = all(len(orjson.dumps(value)) <= MAX_VALUE_BYTES for value in shown_values.values())
    change: Change = {"field": without_addresses(field)}
    if is_short:
        change.update(shown_values)  # type: ignore[typeddict-item]
    return change


def without_addresses(text: str) -> str:
    """The text with each word masked that looks like an email address or a mobile number: names are free text."""
    return " ".join(ADDRESS_MASK if _may_be_address(word) else word for word in text.split(" "))


def host_of(url: str) -> str | None:
    """The host of a URL: the rest may have a secret in it."""
    return urlsplit(url).hostname


def _may_be_address(word: str) -> bool:
    digits = word.translate(PUNCTUATION)
    return "@" in word or (MIN_DIGITS <= len(digits) <= MAX_DIGITS and digits.isdigit())


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, list | tuple):
        return [_json_value(element) for element in value]
    if isinstance(value, dict):
        return {str(name): _json_value(element) for name, element in value.items()}
    return value
