"""The built mail, as parsed by another implementation."""

from __future__ import annotations

import email
import email.policy
import re
from datetime import UTC, datetime
from email.message import EmailMessage, MIMEPart
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.transports.email.mime import (
    Attachment,
    EncodedAttachment,
    address_list_header,
    author_headers,
    build,
    encode_attachment,
)
from tests.support.cases import each

BASIC: dict[str, Any] = {
    "from_name": "Main Shop",
    "from_address": "shop@main.example",
    "to": "ann@example.com",
    "reply_to": None,
    "subject": "Invoice 42",
    "html": None,
    "text": "Hello Ann",
    "message_id": "4711@main.example",
    "date": datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC),
}
PDF = Attachment("invoice.pdf", "application/pdf", b"%PDF-1.4 x")
LOGO = Attachment("logo.png", "image/png", bytes(range(256)), "content_ab12")
BODIES = st.text(max_size=300) | st.text(st.sampled_from("a .=\r\n\t-From\x00ä日_"), max_size=300)


def read(raw: bytes) -> EmailMessage:
    message: EmailMessage = email.message_from_bytes(raw, policy=email.policy.default)
    assert not [defect for part in message.walk() for defect in part.defects]
    return message


def mail(**changes: Any) -> EmailMessage:
    return read(build(**BASIC | changes))


def shape(part: MIMEPart) -> Any:
    """The tree of content types."""
    if not part.is_multipart():
        return part.get_content_type()
    return {part.get_content_type(): [shape(child) for child in part.iter_parts()]}


def lines_of(text: str) -> str:
    """The lines of a body, with all kinds of line ends normalized and one at the end."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return part.get_payload(decode=True).decode().replace("\r\n", "\n")  # type: ignore[union-attr]


def test_the_complete_plain_mail() -> None:
    assert build(**BASIC) == (
        b"Message-ID: <4711@main.example>\r\n"
        b"Date: Sat, 31 Jan 2026 12:00:05 +0000\r\n"
        b"From: Main Shop <shop@main.example>\r\n"
        b"To: ann@example.com\r\n"
        b"Subject: Invoice 42\r\n"
        b"MIME-Version: 1.0\r\n"
        b"Auto-Submitted: auto-generated\r\n"
        b'Content-Type: text/plain; charset="utf-8"\r\n'
        b"Content-Transfer-Encoding: 7bit\r\n"
        b"\r\n"
        b"Hello Ann\r\n"
    )


def test_further_headers_follow_and_one_takes_the_place_of_the_usual_one() -> None:
    ids = " ".join(f"<{number}-{'x' * 40}@acme.example>" for number in range(4))
    headers = {"X-Order": "Größe 42", "auto-submitted": "no", "References": ids}
    content = build(**BASIC, author_headers=author_headers(headers))
    head = content.partition(b"\r\n\r\n")[0]
    assert max(map(len, head.split(b"\r\n"))) <= 78
    assert head.isascii()
    message = read(content)
    assert message["X-Order"] == "Größe 42"
    assert message.get_all("Auto-Submitted") == ["no"]
    assert message["References"] == ids
    names = [name for name, _ in message.items()]
    assert names[-6:-2] == ["X-Order", "auto-submitted", "References", "MIME-Version"]


def test_headers_carry_any_text() -> None:
    message = mail(from_name="Zoë", subject="Überweisung 日本 🐝", reply_to="answers@elsewhere.example")
    assert message["From"].addresses[0].display_name == "Zoë"
    assert message["Subject"] == "Überweisung 日本 🐝"
    assert message["Reply-To"] == "answers@elsewhere.example"


def test_without_a_name_or_reply_address_there_is_no_such_field() -> None:
    message = mail(from_name=None)
    assert message["From"] == "shop@main.example"
    assert message["Reply-To"] is None


@each(
    ("changes", "expected"),
    [
        ({}, "text/plain"),
        ({"text": None, "html": "<p>x</p>"}, "text/html"),
        ({"text": None, "html": None}, "text/plain"),
        ({"html": "<p>x</p>"}, {"multipart/alternative": ["text/plain", "text/html"]}),
        ({"text": "", "html": "<p>x</p>"}, {"multipart/alternative": ["text/plain", "text/html"]}),
        ({"attachments": [PDF]}, {"multipart/mixed": ["text/plain", "application/pdf"]}),
        (
            {"html": "<p>x</p>", "attachments": [PDF, LOGO]},
            {
                "multipart/mixed": [
                    {"multipart/alternative": ["text/plain", "text/html"]},
                    "application/pdf",
                    "image/png",
                ]
            },
        ),
        (
            {"text": None, "html": '<img src="cid:content_ab12">', "attachments": [LOGO]},
            {"multipart/related": ["text/html", "image/png"]},
        ),
        (
            {"html": '<img src="cid:content_ab12">', "attachments": [PDF, LOGO]},
            {
                "multipart/mixed": [
                    {"multipart/alternative": ["text/plain", {"multipart/related": ["text/html", "image/png"]}]},
                    "application/pdf",
                ]
            },
        ),
        ({"text": "cid:content_ab12", "attachments": [LOGO]}, {"multipart/mixed": ["text/plain", "image/png"]}),
    ],
)
def test_the_structure_fits_the_bodies_and_attachments(changes: dict[str, Any], expected: Any) -> None:
    assert shape(mail(**changes)) == expected


def test_an_inline_part_is_found_by_its_content_id() -> None:
    message = mail(html='<img src="cid:content_ab12">', attachments=[LOGO])
    (image,) = [part for part in message.walk() if part["Content-ID"] == "<content_ab12>"]
    assert image.get_content_disposition() == "inline"
    assert image.get_filename() == "logo.png"
    assert image.get_content() == LOGO.content


def test_other_attachments_have_the_disposition_attachment() -> None:
    (part,) = mail(attachments=[LOGO]).iter_attachments()
    assert part.get_content_disposition() == "attachment"
    assert part["Content-ID"] is None


@pytest.mark.parametrize("content", [b"", b"x", b"\r\n.\r\nFrom \0\xff" * 5000])
def test_an_attachment_is_decoded_to_the_same_bytes(content: bytes) -> None:
    (part,) = mail(attachments=[Attachment("größe (1).bin", "application/octet-stream", content)]).iter_attachments()
    assert part.get_filename() == "größe (1).bin"
    assert part.get_payload(decode=True) == content


@each(
    ("given_type", "sent_type"),
    [
        ("text/csv", "text/csv"),
        ("text/csv; charset=utf-8", 'text/csv; charset="utf-8"'),
        ('text/csv;charset="utf-8"', 'text/csv; charset="utf-8"'),
        ("text/csv; name=evil.exe", "text/csv"),
        ('text/csv; name="a; charset=x"; CHARSET=latin1; x=y', 'text/csv; charset="latin1"'),
        ("message/partial", "application/octet-stream"),
        ("application/vnd.ms-excel.sheet.macroEnabled.12", "application/vnd.ms-excel.sheet.macroEnabled.12"),
        ("message/rfc822", "application/octet-stream"),
        ("Multipart/mixed", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("text/plain\r\nBcc: x@y.example", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_the_content_type_of_an_attachment(given_type: str, sent_type: str) -> None:
    message = mail(attachments=[Attachment("a.txt", given_type, b"a,b")])
    (part,) = message.iter_attachments()
    assert part["Content-Type"] == sent_type
    assert part.get_payload(decode=True) == b"a,b"


INNER = b"From: ann@example.com\r\nSubject: Hi\r\n\r\nHello\r\n.\r\nFrom here on\r\n"


@each("content", [INNER, INNER.replace(b"\r\n", b"\n"), INNER.removesuffix(b"\r\n")])
@each("type_", ["message/rfc822", "Message/RFC822; name=evil.exe"])
def test_a_message_is_attached_as_a_message(type_: str, content: bytes) -> None:
    (part,) = mail(attachments=[Attachment("a.eml", type_, content)]).iter_attachments()
    assert (part.get_content_type(), part["Content-Transfer-Encoding"]) == ("message/rfc822", "7bit")
    assert (part.get_content_disposition(), part.get_filename()) == ("attachment", "a.eml")
    assert "name=" not in part["Content-Type"]
    inner: Any = part.get_content()
    assert inner.as_bytes(policy=email.policy.SMTP).rstrip(b"\r\n") == INNER.rstrip(b"\r\n")


@each(
    "content",
    [b"", b"no message", INNER + b"\xff", INNER + b"\0", INNER + b"a\rb", INNER + b"x" * 999, b"From ann\r\n" + INNER],
)
def test_a_message_that_would_need_encoding_is_attached_as_octets(content: bytes) -> None:
    (part,) = mail(attachments=[Attachment("a.eml", "message/rfc822", content)]).iter_attachments()
    assert (part.get_content_type(), part.get_filename()) == ("application/octet-stream", "a.eml")
    assert part.get_payload(decode=True) == content


def test_an_attachment_is_encoded_once_for_many_mails() -> None:
    encoded = encode_attachment(PDF)
    assert isinstance(encoded, EncodedAttachment)
    for address in ("ann@example.com", "bob@example.com"):
        (part,) = mail(to=address, attachments=[encoded]).iter_attachments()
        assert part.get_payload(decode=True) == PDF.content


@each(
    ("text", "encoding"),
    [
        ("plain\nlines", "7bit"),
        ("x" * 998, "7bit"),
        ("x" * 999, "quoted-printable"),
        ("From here on", "quoted-printable"),
        ("Viele Grüße aus Köln am schönen Rhein, wo heute die Sonne scheint", "quoted-printable"),
        ("日本語の文章", "base64"),
        ("nul \0", "quoted-printable"),
    ],
)
def test_the_transfer_encoding_fits_the_text(text: str, encoding: str) -> None:
    message = mail(text=text)
    assert message["Content-Transfer-Encoding"] == encoding
    assert body(message, "plain") == text + "\n"


@each(
    "text", ["From " + "a" * 70 + " é", "From é", "From " + "b" * 2000, "From\nFrom \nFrom x\n" + "é" * 80 + "\nFrom é"]
)
def test_no_line_of_quoted_printable_has_more_than_76_characters(text: str) -> None:
    """A line that begins with From becomes longer (RFC 2045, 6.7)."""
    raw = build(**BASIC | {"text": text})
    encoded = raw.partition(b"\r\n\r\n")[2]
    assert max(map(len, encoded.split(b"\r\n"))) <= 76
    assert not re.search(rb"^From ", encoded, re.MULTILINE)
    assert body(read(raw), "plain") == lines_of(text)


@each(
    ("written", "encoded"),
    [
        ("Zoë <z@d.example>, undisclosed-recipients:;", b"=?utf-8?q?Zo=C3=AB?=\r\n <z@d.example>"),
        ("Zoë <z@d.example>, <>, @, y@d.example", b"=?utf-8?q?Zo=C3=AB?=\r\n <z@d.example>,\r\n y@d.example"),
        ("Zoë <>, y@d.example", b"y@d.example"),
        ("Zoë: ;", b"=?utf-8?b?Wm/DqzogOw==?="),
    ],
)
def test_empty_addresses_of_a_field_are_left_out(written: str, encoded: bytes) -> None:
    """A line of spaces alone would end the header for some servers."""
    assert address_list_header("Cc", written) == b"Cc: " + encoded + b"\r\n"


@given(text=BODIES, html=BODIES)
def test_both_bodies_are_read_back_unchanged(text: str, html: str) -> None:
    raw = build(**BASIC | {"text": text, "html": html, "attachments": [PDF]})
    assert re.fullmatch(rb"(?:[\t\x20-\x7e]{0,998}\r\n)*", raw)
    assert not re.search(rb"^From ", raw, re.MULTILINE)
    message = read(raw)
    assert shape(message) == {
        "multipart/mixed": [{"multipart/alternative": ["text/plain", "text/html"]}, "application/pdf"]
    }
    whole = [lines_of(part).encode("utf-8", "replace").decode() for part in (text, html)]
    assert [body(message, "plain"), body(message, "html")] == whole


@given(text=BODIES)
def test_a_single_body_is_read_back_unchanged(text: str) -> None:
    assert body(read(build(**BASIC | {"text": text})), "plain") == lines_of(text).encode("utf-8", "replace").decode()


@given(
    from_name=st.text(max_size=60),
    subject=st.text(max_size=200),
    address=st.text(max_size=60),
    name=st.text(max_size=60),
    mime_type=st.text(max_size=30),
)
def test_no_value_can_add_a_header(from_name: str, subject: str, address: str, name: str, mime_type: str) -> None:
    raw = build(
        **BASIC
        | {
            "from_name": from_name,
            "subject": subject,
            "from_address": address,
            "reply_to": address + "x",
            "to": address,
            "message_id": address,
            "attachments": [Attachment(name, mime_type, b"x", name)],
        }
    )
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    assert message.keys() == [
        *("Message-ID", "Date", "From", "Reply-To", "To", "Subject", "MIME-Version", "Auto-Submitted", "Content-Type")
    ]
    assert [part.keys() for part in message.walk()][1:] == [
        ["Content-Type", "Content-Transfer-Encoding"],
        ["Content-Type", "Content-Transfer-Encoding", "Content-Disposition"],
    ]
