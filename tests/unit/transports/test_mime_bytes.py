"""A mail with all features byte for byte, and every structure as two parsers read it."""

from __future__ import annotations

import base64
import email
import email.policy
import re
from datetime import UTC, datetime
from typing import Any

from app.transports.email.mime import Attachment, build
from tests.support.cases import each

BASIC: dict[str, Any] = {
    "from_name": "Zoë",
    "from_address": "shop@bücher.example",
    "to": "ann@example.com",
    "reply_to": None,
    "subject": "Grüße 日本",
    "html": None,
    "text": None,
    "message_id": "4711@bücher.example",
    "date": datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC),
}
HTML = '<p>Grüße</p><img src="cid:content_1">'
LOGO = Attachment("größe.png", "image/png", b"\x89PNG", "content_1")
PDF = Attachment("invoice.pdf", "application/pdf", b"%PDF-1.4")
CSV = Attachment("日本.csv", "text/csv", "ä;b\r\n".encode())

WHOLE = b"""\
Message-ID: <4711@xn--bcher-kva.example>
Date: Sat, 31 Jan 2026 12:00:05 +0000
From: =?utf-8?q?Zo=C3=AB?= <shop@xn--bcher-kva.example>
To: ann@example.com
Subject: =?utf-8?b?R3LDvMOfZSDml6XmnKw=?=
MIME-Version: 1.0
Auto-Submitted: auto-generated
Content-Type: multipart/mixed;
 boundary="=_21a02e6269434d2ac868aa196e7de568_mixed"

--=_21a02e6269434d2ac868aa196e7de568_mixed
Content-Type: multipart/alternative;
 boundary="=_21a02e6269434d2ac868aa196e7de568_alternative"

--=_21a02e6269434d2ac868aa196e7de568_alternative
Content-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: base64

R3LDvMOfZQ0K

--=_21a02e6269434d2ac868aa196e7de568_alternative
Content-Type: multipart/related; type="text/html";
 boundary="=_21a02e6269434d2ac868aa196e7de568_related"

--=_21a02e6269434d2ac868aa196e7de568_related
Content-Type: text/html; charset="utf-8"
Content-Transfer-Encoding: quoted-printable

<p>Gr=C3=BC=C3=9Fe</p><img src=3D"cid:content_1">

--=_21a02e6269434d2ac868aa196e7de568_related
Content-Type: image/png
Content-Transfer-Encoding: base64
Content-Disposition: inline;
 filename*=utf-8''gr%C3%B6%C3%9Fe.png
Content-ID: <content_1>

iVBORw==

--=_21a02e6269434d2ac868aa196e7de568_related--

--=_21a02e6269434d2ac868aa196e7de568_alternative--

--=_21a02e6269434d2ac868aa196e7de568_mixed
Content-Type: application/pdf
Content-Transfer-Encoding: base64
Content-Disposition: attachment;
 filename="invoice.pdf"

JVBERi0xLjQ=

--=_21a02e6269434d2ac868aa196e7de568_mixed
Content-Type: text/csv
Content-Transfer-Encoding: base64
Content-Disposition: attachment;
 filename*=utf-8''%E6%97%A5%E6%9C%AC.csv

w6Q7Yg0K

--=_21a02e6269434d2ac868aa196e7de568_mixed--
"""


def test_the_bytes_of_a_mail_with_all_features() -> None:
    """Built again, it is the same."""
    built = build(**BASIC | {"html": HTML, "text": "Grüße", "attachments": [LOGO, PDF, CSV]})
    assert built.decode().split("\r\n") == WHOLE.decode().split("\n")


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, bytes]]]] = {
    "text": ({"text": "Grüße"}, [("text/plain", "Grüße\r\n".encode())]),
    "html": ({"html": "<p>Grüße</p>"}, [("text/html", "<p>Grüße</p>\r\n".encode())]),
    "both": ({"text": "a", "html": "<p>b</p>"}, [("text/plain", b"a\r\n"), ("text/html", b"<p>b</p>\r\n")]),
    "inline image": (
        {"text": "a", "html": HTML, "attachments": [LOGO]},
        [("text/plain", b"a\r\n"), ("text/html", f"{HTML}\r\n".encode()), ("image/png", b"\x89PNG")],
    ),
    "two attachments": (
        {"text": "a", "attachments": [PDF, CSV]},
        [("text/plain", b"a\r\n"), ("application/pdf", b"%PDF-1.4"), ("text/csv", "ä;b\r\n".encode())],
    ),
}


@each("case", CASES)
def test_two_parsers_find_exactly_the_parts(case: str) -> None:
    changes, parts = CASES[case]
    built = build(**BASIC | changes)
    message = email.message_from_bytes(built, policy=email.policy.default)
    leaves = [part for part in message.walk() if not part.is_multipart()]
    read = [(part.get_content_type(), bytes(part.get_payload(decode=True))) for part in leaves]
    assert [(kind, re.sub(rb"\r?\n", b"\r\n", data)) for kind, data in read] == parts
    assert list(parse_leaves(built)) == parts


def parse_leaves(entity: bytes) -> list[tuple[str, bytes]]:
    """The leaves of a mail by RFC 2046, 5.1, parsed without a library."""
    head, _, content = entity.partition(b"\r\n\r\n")
    lines = re.sub(rb"\r\n[ \t]", b" ", head).split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines)
    kind = fields[b"Content-Type"].partition(b";")[0].decode()
    boundary = re.search(rb'boundary="([^"]+)"', fields[b"Content-Type"])
    if boundary:
        pieces = re.split(rb"(?:^|\r\n)--" + re.escape(boundary[1]) + rb"(?:--)?\r\n", content)
        return [leaf for piece in pieces[1:-1] for leaf in parse_leaves(piece)]
    return [(kind, decoded(content, fields[b"Content-Transfer-Encoding"]))]


def decoded(content: bytes, encoding: bytes) -> bytes:
    if encoding == b"base64":
        return base64.b64decode(content)
    if encoding == b"quoted-printable":
        joined = content.replace(b"=\r\n", b"")
        return re.sub(rb"=([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), joined)
    return content
