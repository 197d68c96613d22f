"""Encodes a mail (RFC 5322 and MIME) from the content rendered for one recipient."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache

from app.transports.email.headers import address_header, identifier_header, text_header, unsubscribe_headers
from app.transports.email.parts import (
    Attachment,
    EncodedAttachment,
    Entity,
    encode_attachment,
    multipart,
    text_entity,
)

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
