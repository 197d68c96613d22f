"""Encodes a mail (RFC 5322 and MIME) from the content rendered for one recipient."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache

from app.content.attachments import plain_type
from app.transports.email.headers import (
    MAX_LINE_LENGTH,
    address_header,
    disposition_header,
    identifier_header,
    text_header,
    unsubscribe_headers,
)

# The parts of a mail: bodies, attachments, and the multiparts around them.
#
# An entity is a list of byte strings, header fields first, so that a large attachment is not copied before the whole
# message is joined. Everything is 7-bit, with lines of at most 998 characters.

Entity = list[bytes]

_NEEDS_NO_ENCODING = b"\t\n" + bytes(range(0x20, 0x7F))
_FROM = re.compile(rb"^From ", re.MULTILINE)
_REFERRING_TYPES = ("message/partial", "message/external-body")
"""Types that refer mail programs to content elsewhere."""
ANY_BYTES = "application/octet-stream"
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attached file. It is inline if the HTML refers to `cid:<content_id>`."""

    name: str
    mime_type: str
    content: bytes
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class EncodedAttachment:
    """An attachment, encoded once for any number of messages."""

    name: str
    content_id: str | None
    content_type: str
    body: bytes = field(repr=False)
    encoding: str = "base64"

    def is_inline_in(self, html: str | None) -> bool:
        """Whether `html` refers to it."""
        return self.content_id is not None and html is not None and f"cid:{self.content_id}" in html

    def entity(self, *, inline: bool) -> Entity:
        """The part, for `multipart/related` or for `multipart/mixed`."""
        head = f"Content-Type: {self.content_type}\r\nContent-Transfer-Encoding: {self.encoding}\r\n".encode()
        if not inline:
            return [head, disposition_header("attachment", self.name), b"\r\n", self.body]
        content_id = identifier_header("Content-ID", self.content_id or "")
        return [head, disposition_header("inline", self.name), content_id, b"\r\n", self.body]


def encode_attachment(attachment: Attachment) -> EncodedAttachment:
    """Encodes an attachment: the expensive part, which does not depend on the recipient."""
    content_type = plain_type(attachment.mime_type) or ANY_BYTES
    if content_type.lower().startswith("message/"):
        if (
            not content_type.lower().startswith(_REFERRING_TYPES)
            and (lines := _seven_bit(attachment.content)) is not None
        ):
            return EncodedAttachment(attachment.name, attachment.content_id, content_type, lines, encoding="7bit")
        content_type = ANY_BYTES
    body = base64.encodebytes(attachment.content).replace(b"\n", b"\r\n")
    return EncodedAttachment(attachment.name, attachment.content_id, content_type, body)


def _seven_bit(content: bytes) -> bytes | None:
    """A message as an attachment of type `message/*`, which must not be encoded (RFC 2046, 5.2.1): it must consist of
    short ASCII lines and begin with a header field. None for any other message, which is attached as plain bytes."""
    lines = content.replace(b"\r\n", b"\n")
    is_plain = lines.isascii() and b"\r" not in lines and b"\0" not in lines
    if not is_plain or not _FIELD.match(lines) or max(map(len, lines.split(b"\n"))) > MAX_LINE_LENGTH:
        return None
    return lines.replace(b"\n", b"\r\n")


def text_entity(subtype: str, text: str) -> Entity:
    """A text body. Its line ends become CRLF, its last line gets one, and nothing else changes."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    data = text.encode("utf-8", "replace")
    if not data.endswith(b"\n"):
        data += b"\n"
    encoding, body = _encoded(data)
    return [_text_head(subtype, encoding), body.replace(b"\n", b"\r\n")]


@lru_cache
def _text_head(subtype: str, encoding: str) -> bytes:
    return f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'.encode()


def multipart(subtype: str, entities: Sequence[Entity], boundary: str) -> Entity:
    """Several parts as one; a single part is returned as it is.

    `boundary` is 128 bits in hexadecimal digits, which the author of the parts could not predict.
    """
    if len(entities) == 1:
        return entities[0]
    # No encoded body contains "=_", and no plain one the unpredictable bits.
    mark = f"=_{boundary}_{subtype}".encode()
    root = b' type="text/html";' if subtype == "related" else b""  # RFC 2387, 3.1
    result = [b'Content-Type: multipart/%b;%b\r\n boundary="%b"\r\n\r\n' % (subtype.encode(), root, mark)]
    for entity in entities:
        result += [b"--%b\r\n" % mark, *entity, b"\r\n"]
    return [*result, b"--%b--\r\n" % mark]


def _encoded(data: bytes) -> tuple[str, bytes]:
    """The shortest of the three encodings that preserves `data`. A line that begins with From must be encoded: mail
    stores change it, which breaks signatures."""
    if not (data.translate(None, _NEEDS_NO_ENCODING) or _has_from(data) or _has_long_line(data)):
        return "7bit", data
    beyond_ascii = len(data) - len(data.decode().encode("ascii", "ignore"))
    if beyond_ascii * 6 > len(data):
        # The line ends of the text are encoded as CRLF; those between the lines of base64 are converted by the caller.
        return "base64", base64.encodebytes(data.replace(b"\n", b"\r\n"))
    return "quoted-printable", _FROM.sub(b"=46rom ", binascii.b2a_qp(data))


def _has_from(data: bytes) -> bool:
    """Whether a line begins with it; three times as quick as by the pattern."""
    return data.startswith(b"From ") or b"\nFrom " in data


def _has_long_line(data: bytes) -> bool:
    return len(data) > MAX_LINE_LENGTH and max(map(len, data.split(b"\n"))) > MAX_LINE_LENGTH


__all__ = ["Attachment", "EncodedAttachment", "build", "encode_attachment"]

FIXED_HEADERS = b"MIME-Version: 1.0\r\nAuto-Submitted: auto-generated\r\n"


def build(
    *,
    from_name: str | None,
    from_address: str,
    to: str,
    reply_to: str | None,
    subject: str,
    html: str | None,
    text: str | None,
    attachments: Sequence[Attachment | EncodedAttachment] = (),
    message_id: str,
    date: datetime,
    unsubscribe: tuple[str, str | None] | None = None,
) -> bytes:
    """The message with CRLF line ends, 7-bit except for addresses whose local part is not ASCII.

    The caller chooses `message_id` (with or without angle brackets), so that a retry keeps it. `date` is aware.
    `unsubscribe` is the link of List-Unsubscribe and its mail address, if any. Text and HTML bodies are alternatives;
    an attachment that the HTML refers to by `cid:` is related to the HTML, the others are mixed into the mail. A line
    break in a name, an address or the subject becomes a space.
    """
    headers = [
        identifier_header("Message-ID", message_id),
        _shared_headers(date, from_address, from_name, reply_to),
        address_header("To", to),
        text_header("Subject", subject),
        unsubscribe_headers(*unsubscribe) if unsubscribe else b"",
        FIXED_HEADERS,
    ]
    # Boundaries depend on the message id: the same in a retry, and unpredictable to the author of the content.
    boundary = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    return b"".join([*headers, *_content(html, text, attachments, boundary)])


@lru_cache(maxsize=256)
def _shared_headers(date: datetime, from_address: str, from_name: str | None, reply_to: str | None) -> bytes:
    """The headers that are the same for all recipients of a send."""
    return b"".join(
        [
            f"Date: {format_datetime(date)}\r\n".encode(),
            address_header("From", from_address, from_name or ""),
            address_header("Reply-To", reply_to) if reply_to else b"",
        ]
    )


def _content(
    html: str | None, text: str | None, attachments: Sequence[Attachment | EncodedAttachment], boundary: str
) -> Entity:
    encoded = [item if isinstance(item, EncodedAttachment) else encode_attachment(item) for item in attachments]
    inline = [item.entity(inline=True) for item in encoded if item.is_inline_in(html)]
    others = [item.entity(inline=False) for item in encoded if not item.is_inline_in(html)]
    bodies: list[Entity] = []
    if text is not None or html is None:
        bodies.append(text_entity("plain", text or ""))
    if html is not None:
        bodies.append(multipart("related", [text_entity("html", html), *inline], boundary))
    return multipart("mixed", [multipart("alternative", bodies, boundary), *others], boundary)
