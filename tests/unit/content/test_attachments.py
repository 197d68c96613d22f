"""The checks of attachments (docs/sending.md#attachments)."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content.attachments import decode_strict, extension_fits, is_valid_name, media_type, new_content_id, plain_type
from tests.support.cases import each


@each(
    "name",
    [
        "a",
        "a.txt",
        "My File_1-a (2).txt",
        "a" * 255,
        "a.",
        "-a",
        "a..b",
        "März.pdf",
        "Ma\u0308rz.pdf",
        "हिन्दी.txt",
        "請求書 ٣.pdf",
    ],
)
def test_valid_names(name: str) -> None:
    assert is_valid_name(name)


@each(
    "name",
    [
        "",
        "a" * 256,
        ".a.txt",
        ".",
        "../a.txt",
        "a/b.txt",
        "a\\b.txt",
        "a\n",
        "a\x00",
        'a".txt',
        "a,b",
        "a:b",
        "a;b",
        "a…b",
        "²",
        "a\u202egnp.exe",
        "a\u200d",
        "a\t",
    ],
)
def test_invalid_names(name: str) -> None:
    assert not is_valid_name(name)


@each(
    ("mime_type", "name"),
    [
        ("text/plain", "a.txt"),
        ("text/plain", "a.log"),
        ("text/plain", "A.B.TXT"),
        ("TEXT/Plain", "a.txt"),
        ("text/csv; charset=utf-8", "a.csv"),
        ("image/jpeg", "a.jpg"),
        ("image/jpeg", "a.jpeg"),
        ("image/jpg", "a.jpeg"),
        ("image/webp", "a.webp"),
        ("application/pdf", "a.pdf"),
        ("application/xml", "a.xml"),
        ("text/calendar", "a.ics"),
        ("application/gzip", "a.tar.gz"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "a.docx"),
        ("application/vnd.apple.pkpass", "ticket.pkpass"),
    ],
)
def test_extensions_that_fit_the_media_type(mime_type: str, name: str) -> None:
    assert extension_fits(mime_type, name)


@each(
    ("mime_type", "name"),
    [
        ("image/png", "a.txt"),
        ("text/plain", "a.png"),
        ("text/plain", "a.exe"),
        ("application/pdf", "a"),
        ("application/pdf", "pdf"),
        ("application/pdf", "a."),
        ("application/pdf", "a.pdf.exe"),
        ("text/calendar", "a.pdf"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "a.pdf"),
    ],
)
def test_extensions_that_do_not_fit_the_media_type(mime_type: str, name: str) -> None:
    assert not extension_fits(mime_type, name)


@each("name", ["a.xyz", "a.png", "a"])
@each("mime_type", ["application/octet-stream", "application/vnd.acme.thing+json", "x-private/data"])
def test_unspecific_and_unknown_types_accept_any_extension(mime_type: str, name: str) -> None:
    assert extension_fits(mime_type, name)


@each(
    "mime_type",
    [
        "",
        "text",
        "text/",
        "/plain",
        "text/plain/x",
        "te xt/plain",
        "text/plain\r\nX-Injected: yes",
        "text/plain;\nx",
        "multipart/mixed",
    ],
)
def test_malformed_and_multipart_types_accept_no_extension(mime_type: str) -> None:
    assert media_type(mime_type) is None
    assert not extension_fits(mime_type, "a.txt")


def test_the_media_type_is_in_lower_case_and_without_parameters() -> None:
    assert media_type("Text/CSV ; charset=utf-8") == "text/csv"


@each(
    ("mime_type", "kept"),
    [
        ("text/plain", "text/plain"),
        ("Text/Plain; charset=UTF-8", "Text/Plain; charset=UTF-8"),
        ('text/plain;charset = "iso-8859-1" ; format=flowed', "text/plain; charset=iso-8859-1"),
        ("text/plain; format=flowed; Charset=utf-8; charset=latin1", "text/plain; charset=utf-8"),
        ('text/plain; name="x; charset=utf-16"', "text/plain"),
        (r'text/plain; name="\"; charset=utf-16"; charset=utf-8', "text/plain; charset=utf-8"),
        ("text/plain; name=evil.exe", "text/plain"),
        ("text/plain; charset*=utf-8''utf-8", "text/plain"),
        ("text/plain; charset=", "text/plain"),
        ('text/plain; charset="a b"', "text/plain"),
        ('text/plain; charset="utf-8', "text/plain"),
        ("text/plain; nonsense; charset=utf-8", "text/plain"),
        ("text/plain;", "text/plain"),
        ("multipart/mixed; boundary=x", None),
        ("text/plain; charset=utf-8\r\nBcc: x@y.example", None),
    ],
)
def test_the_charset_is_the_only_parameter_kept(mime_type: str, kept: str | None) -> None:
    assert plain_type(mime_type) == kept


@pytest.mark.parametrize(
    ("content", "expected"), [("YQ==", b"a"), ("YWI=", b"ab"), ("+/+/", b"\xfb\xff\xbf"), ("", b"")]
)
def test_base64_is_decoded(content: str, expected: bytes) -> None:
    assert decode_strict(content) == expected


@each(
    "content",
    [
        "@@@@",
        "YQ",
        "YQ=",
        "YQ=\n=",
        "YQ==\n",
        " YQ==",
        "YQ==YQ==",
        "YQ===",
        "=YQ=",
        "-_-_",
        "é",
        "data:;base64,YQ==",
        "A",
    ],
)
def test_malformed_base64_is_refused(content: str) -> None:
    with pytest.raises(ValueError):
        decode_strict(content)


@given(st.binary())
def test_base64_of_every_file_decodes_to_the_file(content: bytes) -> None:
    assert decode_strict(base64.b64encode(content).decode()) == content


@given(st.text(), st.text())
def test_checks_never_raise(mime_type: str, name: str) -> None:
    assert extension_fits(mime_type, name) in (True, False)
    assert is_valid_name(name) in (True, False)


def test_content_ids_are_unique() -> None:
    ids = {new_content_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"content_[0-9a-f]{32}", content_id) for content_id in ids)
