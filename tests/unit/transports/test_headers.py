"""Header fields: any text is written as one safe field that readers can parse."""

from __future__ import annotations

import email
import email.policy
import re
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.transports.email.mime import (
    MAX_LINE_LENGTH,
    address_header,
    disposition_header,
    identifier_header,
    one_line,
    text_header,
)
from tests.support.cases import each

ANY = st.text(max_size=400)
ASCII = st.text(st.characters(max_codepoint=127), max_size=1200)
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=255)


def read(field: bytes) -> EmailMessage:
    return email.message_from_bytes(field + b"X-Next: 1\r\n\r\nbody", policy=email.policy.default)


def check_lines(field: bytes) -> None:
    """Checks one field: CRLF only at the ends of lines, further lines indented, none empty or too long."""
    assert field.endswith(b"\r\n")
    lines = field[:-2].split(b"\r\n")
    assert all(re.fullmatch(rb"[\x20-\x7e]*", line) for line in lines)
    assert all(line.startswith(b" ") and line.strip() for line in lines[1:])
    assert max(map(len, lines)) <= MAX_LINE_LENGTH


@each(
    ("text", "field"),
    [
        ("Invoice 42", b"Subject: Invoice 42\r\n"),
        ("", b"Subject: \r\n"),
        ("two  spaces", b"Subject: two  spaces\r\n"),
        ("a\r\nBcc: b@c.example", b"Subject: a Bcc: b@c.example\r\n"),
        ("a\u2028b\x85c\x00d\te", b"Subject: a b c d e\r\n"),
        ("Grüße", b"Subject: =?utf-8?b?R3LDvMOfZQ==?=\r\n"),
        ("=?utf-8?q?fake?=", b"Subject: =?utf-8?b?PT91dGYtOD9xP2Zha2U/PQ==?=\r\n"),
    ],
)
def test_text_is_encoded_where_needed(text: str, field: bytes) -> None:
    assert text_header("Subject", text) == field


def test_long_ascii_text_stays_readable_and_is_folded() -> None:
    words = " ".join(["invoice"] * 30)
    field = text_header("Subject", words)
    assert max(map(len, field.split(b"\r\n"))) <= 78
    assert field.replace(b"\r\n", b"") == b"Subject: " + words.encode()


@given(ANY | ASCII)
def test_any_text_is_read_back_as_one_line(text: str) -> None:
    field = text_header("Subject", text)
    check_lines(field)
    message = read(field)
    assert message.keys() == ["Subject", "X-Next"]
    assert str(message["Subject"]) == one_line(text)


@given(st.text(st.sampled_from("\r\n\t\x0b\x0c\x85\u2028 aä:=?"), max_size=100))
def test_line_breaks_never_enter_a_field(text: str) -> None:
    for field in (text_header("Subject", text), address_header("From", "a@b.example", text)):
        check_lines(field)
        assert read(field).keys()[1:] == ["X-Next"]


@each(
    ("name", "field"),
    [
        ("", b"From: a@b.example\r\n"),
        ("Main Shop", b"From: Main Shop <a@b.example>\r\n"),
        ("Smith, John", b'From: "Smith, John" <a@b.example>\r\n'),
        ('The "one" \\', b'From: "The \\"one\\" \\\\" <a@b.example>\r\n'),
        ("x@y.example", b'From: "x@y.example" <a@b.example>\r\n'),
        ("Zoë", b"From: =?utf-8?q?Zo=C3=AB?= <a@b.example>\r\n"),
        ("Zoë, and <b@c.example>\r\n", b"From: =?utf-8?b?Wm/DqywgYW5kIDxiQGMuZXhhbXBsZT4=?= <a@b.example>\r\n"),
    ],
)
def test_mailboxes(name: str, field: bytes) -> None:
    assert address_header("From", "a@b.example", name) == field


@given(ANY | ASCII)
def test_any_name_is_read_back_with_its_address(name: str) -> None:
    field = address_header("From", "sender@main.example", name)
    check_lines(field)
    value = field[len("From: ") : -2].decode().replace("\r\n", "")
    display_name, address = parseaddr(value)
    assert address == "sender@main.example"
    assert str(make_header(decode_header(display_name))) == one_line(name)
    (mailbox,) = read(field)["From"].addresses
    assert mailbox.addr_spec == "sender@main.example"


def test_an_international_domain_is_written_in_ascii() -> None:
    assert address_header("To", "ann@bücher.example") == b"To: ann@xn--bcher-kva.example\r\n"


def test_an_international_local_part_has_no_ascii_form() -> None:
    assert address_header("To", "zoë@bücher.example") == "To: zoë@xn--bcher-kva.example\r\n".encode()


def test_an_invalid_domain_is_not_changed() -> None:
    assert address_header("To", "ann@-ü-.example") == "To: ann@-ü-.example\r\n".encode()


@pytest.mark.parametrize("identifier", ["1@main.example", "<1@main.example>", " <1@main.example>\r\n"])
def test_identifiers_are_in_angle_brackets(identifier: str) -> None:
    assert identifier_header("Message-ID", identifier) == b"Message-ID: <1@main.example>\r\n"


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("a b.txt", b'Content-Disposition: attachment;\r\n filename="a b.txt"\r\n'),
        ("größe.png", b"Content-Disposition: attachment;\r\n filename*=utf-8''gr%C3%B6%C3%9Fe.png\r\n"),
        ('a"\r\nb.txt', b"Content-Disposition: attachment;\r\n filename*=utf-8''a%22%20b.txt\r\n"),
    ],
)
def test_file_names(name: str, field: bytes) -> None:
    assert disposition_header("attachment", name) == field


@given(NAMES)
@example("<a>")
def test_any_file_name_is_read_back(name: str) -> None:
    field = disposition_header("attachment", name)
    check_lines(field)
    parameters = read(field)["Content-Disposition"].params  # `get_filename` takes angle brackets off a name's ends
    assert parameters["filename"] == one_line(name)
