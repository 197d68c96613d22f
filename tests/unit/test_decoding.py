"""Decoding texts of others: character sets and encoded words."""

from __future__ import annotations

from email.charset import BASE64, QP, Charset

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decoding import decode, decode_words
from tests.support.cases import each


@each("charset", ["ISO-8859-1", "iso_8859-1:1987", "latin1", "Windows-1252", "utf--8", "KOI8-U", "shift_jis", "GB2312"])
def test_a_name_is_known_however_it_is_written(charset: str) -> None:
    assert decode(b"a", charset) == "a"


@each("charset", ["", "klingon", "punycode", "IDNA", "unicode-escape", "hex", "rot13", "utf-8\0klingon"])
def test_what_is_no_charset_of_texts_is_refused(charset: str) -> None:
    with pytest.raises(LookupError):
        decode(b"a", charset)


@each(("content", "charset", "replaced"), [(b"\xe9", "utf-8", "\ufffd"), (b"+2AA-", "utf-7", "?")])
def test_content_that_is_not_in_the_charset_is_refused_or_replaced(content: bytes, charset: str, replaced: str) -> None:
    with pytest.raises(ValueError, match=r"can't (de|en)code"):
        decode(content, charset)
    assert decode(content, charset, "replace") == replaced


@each(
    ("written", "text"),
    [
        ("Hello", "Hello"),
        ("=?utf-8?q?Gr=C3=BC=C3=9Fe_an?= Ann", "Gr\xfc\xdfe an Ann"),
        ("=?UTF-8*de?B?R3LDvMOfZQ==?=", "Gr\xfc\xdfe"),
        ("=?utf-8?b?R3LDvMOfZQ?=", "Gr\xfc\xdfe"),
        ("=?utf-8?q?=C3?= =?utf-8?b?vA==?=", "\xfc"),
        ("=?iso-8859-1?q?=FC?=\t=?utf-8?q?=C3=BC?=", "\xfc\xfc"),
        ("a =?utf-8?q?b?= c =?utf-8?q?d?==?utf-8?q?e?=", "a b c de"),
        ("=?klingon?q?a?= =?utf-8?q?b?=", "=?klingon?q?a?= =?utf-8?q?b?="),
        ("=?utf-8?b?a?=", "=?utf-8?b?a?="),
        ("=?utf-8?q?\xfc?=", "=?utf-8?q?\xfc?="),
        ("=?utf-8?x?a?=", "=?utf-8?x?a?="),
        ("=?utf-8?q?=FF?=", "\ufffd"),
    ],
)
def test_encoded_words_are_decoded_and_others_stay(written: str, text: str) -> None:
    assert decode_words(written) == text


@given(texts=st.lists(st.text(min_size=1, max_size=50), max_size=5), encoding=st.sampled_from([BASE64, QP]))
def test_what_the_library_has_encoded_is_read_back(texts: list[str], encoding: int) -> None:
    charset = Charset("utf-8")
    charset.header_encoding = encoding
    assert decode_words("\r\n ".join(map(charset.header_encode, texts))) == "".join(texts)


@given(st.text(alphabet="=?qQbB_ aF8\n\xfc", max_size=100))
def test_any_text_is_read(written: str) -> None:
    decode_words(written)
