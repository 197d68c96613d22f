"""Decoding texts of others, in time linear in them. Pure."""

from __future__ import annotations

import binascii
import encodings
import pkgutil
import re
from encodings.aliases import aliases
from itertools import groupby
from operator import itemgetter

OTHER_CODECS = {"idna", "punycode", "unicode_escape", "raw_unicode_escape"}
"""No mail is written in these. Decoding the first two takes longer than in proportion to the length; the others are for
source code."""
CODECS = {*aliases, *(module.name for module in pkgutil.iter_modules(encodings.__path__))} - OTHER_CODECS
"""The names that Python knows. It keeps every other name that it is asked for, so others are not looked up."""
_WORD = re.compile(r"=\?([^?]*+)\?([bBqQ])\?([^?]*+)\?=")
_WORDS = re.compile(rf"{_WORD.pattern}(?:\s*+{_WORD.pattern})*+")


def decode(content: bytes, charset: str, errors: str = "strict") -> str:
    """The text of the content. Raises `LookupError` for a character set that is unknown or not of a text, and
    `ValueError` for content that is not in it."""
    name = encodings.normalize_encoding(charset.lower())
    if name not in CODECS:
        raise LookupError("unknown charset")
    # UTF-7 can have half of a pair of surrogates, which nothing can store or send.
    return content.decode(name, errors).encode("utf-8", errors).decode()


def decode_words(value: str) -> str:
    """The value of a field of a header with its encoded words (RFC 2047) decoded. What cannot be decoded stays as it is
    written. The library alone takes longer than in proportion to the length."""
    return _WORDS.sub(_decode_adjacent, value) if "=?" in value else value


def _decode_adjacent(words: re.Match[str]) -> str:
    """The text of words between which white space does not count: a character may be in two of them."""
    try:
        contents = [(name.partition("*")[0].lower(), _content(*word)) for name, *word in _WORD.findall(words[0])]
        by_charset = groupby(contents, key=itemgetter(0))
        return "".join(decode(b"".join(content for _, content in group), name, "replace") for name, group in by_charset)
    except (LookupError, ValueError):
        return words[0]


def _content(encoding: str, text: str) -> bytes:
    """The bytes of an encoded word. Raises `ValueError`."""
    if encoding in "qQ":
        return binascii.a2b_qp(text.encode("ascii"), header=True)
    return binascii.a2b_base64(text + "=" * (-len(text) % 4))
