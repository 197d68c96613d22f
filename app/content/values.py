"""The values of wildcards and conditions, those of the recipient and those of the contact, and the encoding of plain
text as HTML."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from html.entities import html5
from typing import Any, NamedTuple, TypeAlias


class WildcardValue(NamedTuple):
    """The value of a wildcard; `encoded` means that `text` is already HTML-encoded."""

    text: str
    encoded: bool


# Keys are in lower case and without '#'.
WildcardValues: TypeAlias = Mapping[str, WildcardValue]


def recipient_values(raw: Mapping[str, str | int | float | None], *, html_encoded: bool) -> dict[str, WildcardValue]:
    """The values of a recipient row: texts, in older rows also numbers, which become their JSON text; null is absent
    (docs/personalisation.md#values).

    `html_encoded` is the send's `recipient_data_html_encoded`. If it is false, a name that begins with `#` still marks
    its value as HTML.
    """
    values: dict[str, WildcardValue] = {}
    for name, value in raw.items():
        if value is not None:
            key, is_html = _key_and_mark(name)
            text = value if isinstance(value, str) else json.dumps(value)
            values[key] = WildcardValue(text, html_encoded or is_html)
    return values


@lru_cache(maxsize=4096)
def _key_and_mark(name: str) -> tuple[str, bool]:
    """The key of a value, and whether its name marks it as HTML. The recipients of a send have the same names."""
    return name.removeprefix("#").lower(), name.startswith("#")


class MergedValues(Mapping[str, WildcardValue]):
    """The recipient's own values, then those of other sources, which are plain text (docs/personalisation.md#values).
    The first source with a value takes precedence; an empty own value is a value, None is not.

    Values are converted when they are looked up, because a body uses only a few of them.
    """

    __slots__ = ("_recipient_values", "_sources")

    def __init__(self, values: WildcardValues, *sources: Mapping[str, object]) -> None:
        self._recipient_values = values
        self._sources = sources

    def get(self, key: str, default: Any = None) -> Any:
        """The value or the default; not by way of an exception, because a body looks up each of its wildcards."""
        value_of_recipient = self._recipient_values.get(key)
        if value_of_recipient is not None:
            return value_of_recipient
        for source in self._sources:
            value = source.get(key)
            if value is not None:
                return WildcardValue(_text(value), encoded=False)
        return default

    def __getitem__(self, key: str) -> WildcardValue:
        value: WildcardValue | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name for source in (self._recipient_values, *self._sources) for name in source)
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


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
    """The number as people write it: without exponent, and without the '.0' that a float column adds to a whole
    number."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")


# Only references that end in a semicolon, as encoders write them. The lenient rule of browsers would turn the
# "&region=" of a link that was never encoded into "®ion=". Numbers are short because html.unescape() raises on
# thousands of digits; the highest code point needs seven.
_REFERENCE = re.compile(r"(&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)")


def encode(text: str) -> str:
    """Plain text as HTML, safe in an element and in a quoted attribute."""
    return html.escape(text)


def decode(encoded: str) -> str:
    """Replaces the character references of HTML-encoded text; everything else, including tags, is kept."""
    if "&" not in encoded:
        return encoded
    # Every second piece is a reference. For a text that consists of references, this takes a tenth of the time of
    # `sub`.
    pieces = _REFERENCE.split(encoded)
    pieces[1::2] = map(_character, pieces[1::2])
    return "".join(pieces)


@lru_cache(maxsize=1024)
def _character(written: str) -> str:
    return html.unescape(written) if written[1] == "#" else html5.get(written[1:], written)
