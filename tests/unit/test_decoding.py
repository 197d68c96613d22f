"""Decoding texts of others: character sets and encoded words."""

from __future__ import annotations

import pytest

from app.decoding import decode
from tests.support.cases import each


@each("charset", ["ISO-8859-1", "iso_8859-1:1987", "latin1", "Windows-1252", "utf--8", "KOI8-U", "shift_jis", "GB2312"])
def test_a_name_is_known_however_it_is_written(charset: str) -> None:
    assert decode(b"a", charset) == "a"


@each("charset", ["", "klingon", "punycode", "IDNA", "hex", "rot13", "utf-8\0klingon"])
def test_what_is_no_charset_of_texts_is_refused(charset: str) -> None:
    with pytest.raises(LookupError):
        decode(b"a", charset)


def test_content_that_is_not_in_the_charset_is_refused_or_replaced() -> None:
    with pytest.raises(ValueError, match="can't decode"):
        decode(b"\xe9", "utf-8")
    assert decode(b"\xe9", "utf-8", "replace") == "\ufffd"
