"""Decoding texts of others from the character set that they name. Pure."""

from __future__ import annotations

import encodings
import pkgutil
from encodings.aliases import aliases

SLOW_CODECS = {"idna", "punycode"}
"""No mail is written in these, and decoding takes longer than in proportion to the length."""
CODECS = {*aliases, *(module.name for module in pkgutil.iter_modules(encodings.__path__))} - SLOW_CODECS
"""The names that Python knows. It keeps every other name that it is asked for, so others are not looked up."""


def decode(content: bytes, charset: str, errors: str = "strict") -> str:
    """The text, in time linear in it. Raises `LookupError` for a character set that is unknown or not of a text, and
    `ValueError` for content that is not in it."""
    name = encodings.normalize_encoding(charset.lower())
    if name not in CODECS:
        raise LookupError("unknown charset")
    return content.decode(name, errors)
