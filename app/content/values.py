"""The values that wildcards and conditions see: those of the recipient, and those of the contact."""

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple, TypeAlias


class Value(NamedTuple):
    """One value; `encoded` says that `text` is HTML-encoded already."""

    text: str
    encoded: bool


# Keys are in lower case and without '#'. A recipient's values override the contact's: {**contact, **recipient}.
Values: TypeAlias = Mapping[str, Value]


def recipient_values(raw: Mapping[str, str | int | float | None], *, html_encoded: bool) -> dict[str, Value]:
    """A recipient's own values as accepted: texts, in older rows numbers too, which are taken as their JSON text; null
    is absent (decisions: 6 and 7).

    `html_encoded` is the send's `recipient_data_html_encoded`. Where it is false, a name that begins with `#` says
    that this one value is HTML nevertheless.
    """
    return {
        name.removeprefix("#").lower(): Value(
            value if isinstance(value, str) else json.dumps(value), html_encoded or name.startswith("#")
        )
        for name, value in raw.items()
        if value is not None
    }


def contact_values(fields: Mapping[str, object]) -> dict[str, Value]:
    """A contact's attributes and list fields, which are plain text (decisions: 7); empty ones are absent."""
    return {key.lower(): Value(_text(value), encoded=False) for key, value in fields.items() if value is not None}


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _number(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _number(number: float) -> str:
    """As a person writes it: neither an exponent nor the '.0' that a float column adds to a whole number."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")
