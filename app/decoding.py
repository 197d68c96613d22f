"""Decoding texts of others, in time linear in them. Pure."""

from __future__ import annotations

import encodings
import pkgutil
import re
from email.errors import HeaderParseError
from email.header import decode_header
from encodings.aliases import aliases

SLOW_CODECS = {"idna", "punycode"}
"""No mail is written in these, and decoding takes longer than in proportion to the length."""
CODECS = {*aliases, *(module.name for module in pkgutil.iter_modules(encodings.__path__))} - SLOW_CODECS
"""The names that Python knows. It keeps every other name that it is asked for, so others are not looked up."""
_WORD = r"=\?[^?]*+\?[bBqQ]\?[^?]*+\?="
_WORDS = re.compile(rf"{_WORD}(?:\s*+{_WORD})*+")


def decode(content: bytes, charset: str, errors: str = "strict") -> str:
    """The text of the content. Raises `LookupError` for a character set that is unknown or not of a text, and
    `ValueError` for content that is not in it."""
    name = encodings.normalize_encoding(charset.lower())
    if name not in CODECS:
        raise LookupError("unknown charset")
    return content.decode(name, errors)


def decode_words(value: str) -> str:
    """The value of a field of a header with its encoded words (RFC 2047) decoded. What cannot be decoded stays as it is
    written. The library alone looks for the end of each word up to the end of the value."""
    return _WORDS.sub(_decode_adjacent, value) if "=?" in value else value


def _decode_adjacent(words: re.Match[str]) -> str:
    """The text of words between which white space does not count: a character may be in two of them."""
    try:
        return "".join(_text(*piece) for piece in decode_header(words[0]))
    except (HeaderParseError, LookupError, ValueError):
        return words[0]


def _text(piece: str | bytes, charset: str | None) -> str:
    return piece if isinstance(piece, str) else decode(piece, charset or "", "replace")
