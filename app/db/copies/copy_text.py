"""Rows as lines of text, in the format of PostgreSQL's COPY: what PostgreSQL itself writes and reads, and here the same
from and to the values that SQLite stores. Pure.

Columns are separated by tabs, a null is `\\N`, and tabs, line ends and backslashes in a value are escaped. Times are in
UTC, bytes hexadecimal, booleans `t` and `f`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

Stored = str | int | float | bytes | None


class Kind(Enum):
    """What the text of a column stands for, where SQLite stores it in another form."""

    PLAIN = "plain"
    BOOLEAN = "boolean"
    TIME = "time"
    BYTES = "bytes"


NULL = "\\N"
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def row_encoder(kinds: Sequence[Kind]) -> Callable[[Sequence[Stored]], bytes]:
    """A function that makes the line of a row that SQLite stores."""
    encoders = [_ENCODERS[kind] for kind in kinds]

    def encode(row: Sequence[Stored]) -> bytes:
        texts = [NULL if value is None else of(value) for of, value in zip(encoders, row, strict=True)]
        return ("\t".join(texts) + "\n").encode()

    return encode


def row_decoder(kinds: Sequence[Kind]) -> Callable[[bytes], list[Stored]]:
    """A function that makes the row for SQLite of a line. Raises `ValueError` for one that is none of such a table."""
    decoders = [_DECODERS[kind] for kind in kinds]

    def decode(line: bytes) -> list[Stored]:
        texts = line.decode().removesuffix("\n").split("\t")
        if len(texts) != len(decoders):
            raise ValueError(f"a row has {len(texts)} columns instead of {len(decoders)}")
        return [None if text == NULL else of(text) for of, text in zip(decoders, texts, strict=True)]

    return decode


def _plain(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], value) if _SPECIAL.search(value) else value


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text) if "\\" in text else text


def _stored_time(text: str) -> str:
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(" ", "microseconds")


_ENCODERS: dict[Kind, Callable[[Any], str]] = {
    Kind.PLAIN: _plain,
    Kind.BOOLEAN: lambda value: "t" if value else "f",
    Kind.TIME: lambda value: f"{value}+00",
    Kind.BYTES: lambda value: f"\\\\x{bytes(value).hex()}",
}
_DECODERS: dict[Kind, Callable[[str], Stored]] = {
    Kind.PLAIN: _unescaped,
    Kind.BOOLEAN: lambda text: int(text == "t"),
    Kind.TIME: _stored_time,
    Kind.BYTES: lambda text: bytes.fromhex(text.removeprefix("\\\\x")),
}
