"""Rows as lines of text, in the format of PostgreSQL's COPY: what PostgreSQL itself writes and reads, and here the same
from and to the values that SQLite stores. Pure.

Columns are separated by tabs, a null is `\\N`, and tabs, line ends and backslashes in a value are escaped. Times are in
UTC, bytes hexadecimal, booleans `t` and `f`.

Many rows are converted together, column by column, and whether any value has to be escaped is counted in the finished
text. Nearly always none has, and to look at each value alone would take several times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

Stored = str | int | float | bytes | None


class Kind(Enum):
    """What the text of a column stands for, where SQLite stores it in another form; of those that it stores in the
    same, which are `TEXT` and may be long."""

    PLAIN = "plain"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    BYTES = "bytes"


NULL = "\\N"
_BYTES = "\\\\x"
"""Before the digits of bytes."""
_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OF_SQLITE = re.compile(r"[\d-]{10} [\d:]{8}\.\d{6}\+00")
"""A time with all its digits: PostgreSQL leaves zeros at the end out, and may have another zone."""


def encode_rows(kinds: Sequence[Kind], rows: Sequence[Sequence[Stored]]) -> bytes:
    """The lines of rows that SQLite stores, of one at least."""
    columns = list(zip(kinds, zip(*rows, strict=True), strict=True))
    text = _joined(_written(kind, column) for kind, column in columns)
    backslashes = sum(_backslashes(kind, column) for kind, column in columns)
    unescaped = backslashes, len(rows) * (len(kinds) - 1), len(rows), 0
    if unescaped != tuple(map(text.count, ("\\", "\t", "\n", "\r"))):
        text = _joined(map(_escape, _written(kind, column), [kind] * len(rows), column) for kind, column in columns)
    return text.encode()


def decode_rows(kinds: Sequence[Kind], lines: Sequence[bytes]) -> Iterable[Sequence[Stored]]:
    """The rows for SQLite of lines, of one at least. Raises `ValueError` for lines that are none of such a table."""
    rows = [line.decode().removesuffix("\n").split("\t") for line in lines]
    for row in rows:
        if len(row) != len(kinds):
            raise ValueError(f"a row has {len(row)} columns instead of {len(kinds)}")
    return zip(*(_read(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)), strict=True)


def _joined(columns: Iterable[Iterable[str]]) -> str:
    return "\n".join(map("\t".join, zip(*columns, strict=True))) + "\n"


def _written(kind: Kind, column: Sequence[Any]) -> list[str]:
    """The texts of a column. Those of SQLite are not escaped yet."""
    match kind:
        case Kind.BOOLEAN:
            return [NULL if value is None else "t" if value else "f" for value in column]
        case Kind.TIME:
            return [NULL if value is None else f"{value}+00" for value in column]
        case Kind.BYTES:
            return [NULL if value is None else f"{_BYTES}{bytes(value).hex()}" for value in column]
        case _:
            return [NULL if value is None else value if value.__class__ is str else repr(value) for value in column]


def _backslashes(kind: Kind, column: Sequence[Any]) -> int:
    """How many the format has of itself."""
    nulls = column.count(None)
    return nulls + (len(column) - nulls) * 2 if kind is Kind.BYTES else nulls


def _escape(text: str, kind: Kind, value: Any) -> str:
    is_free = kind in (Kind.PLAIN, Kind.TEXT) and value is not None
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text) if is_free else text


def _read(kind: Kind, column: Sequence[str]) -> Iterable[Stored]:
    match kind:
        case Kind.BOOLEAN:
            return [None if text == NULL else int(text == "t") for text in column]
        case Kind.TIME:
            return [None if text == NULL else _stored_time(text) for text in column]
        case Kind.BYTES:
            return [None if text == NULL else bytes.fromhex(text.removeprefix(_BYTES)) for text in column]
        case _:
            return [None if text == NULL else _unescaped(text) if "\\" in text else text for text in column]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _stored_time(text: str) -> str:
    if _OF_SQLITE.fullmatch(text):
        return text[:-3]
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(" ", "microseconds")
