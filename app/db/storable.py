"""Text from other systems in a form that both databases and JSON can store."""

from __future__ import annotations

import re

MAX_TEXT = 1000
LONGEST_ID = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def storable_text(value: object, longest: int = MAX_TEXT) -> str:
    """One line without control characters and surrogates, truncated. Bytes are decoded as UTF-8; other values are
    replaced by the name of their type. Raises nothing."""
    if type(value) is str and value.isascii() and value.isprintable():
        return value[:longest].strip()
    text = _text(value, longest)
    if text is None:
        return "" if value is None else f"({type(value).__name__})"
    return _CONTROL.sub(" ", text).strip()[:longest]


def storable_id(value: object) -> str | None:
    """An identifier of another system, from text or a number; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**LONGEST_ID else None
    text = _text(value, LONGEST_ID + 1)
    whole = text is not None and 0 < len(text) <= LONGEST_ID and not _CONTROL.search(text)
    return text if whole else None


def _text(value: object, longest: int) -> str | None:
    """At least the first `longest` characters. Does not call methods of subclasses."""
    if isinstance(value, str):
        return str.encode(str.__getitem__(value, slice(longest)), "utf-8", "replace").decode()
    if isinstance(value, bytes | bytearray):
        return bytes(memoryview(value)[: 4 * longest]).decode("utf-8", "replace")
    return None
