"""Tokens of tracked links: who follows which link. Pure.

A link that is the same for everybody is stored with its send, and the token names it by its id: about 24 characters.
One that differs from one recipient to the next stands in the token itself. Either way nobody can make a token that
leads elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.tracking.links import LinkType
from app.tracking.tokens import CLICK, LONGEST_TOKEN, number_bytes, opened, sealed

STORED = 0
WRITTEN: dict[int, LinkType] = {1: "html_email", 2: "text_email"}
"""First byte of a token that holds its URL."""
CODES = {link_type: code for code, link_type in WRITTEN.items()}


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link that is found by its id."""

    recipient_id: int
    link_id: int


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link that the token holds itself."""

    recipient_id: int
    link_type: LinkType
    url: str


def link_token(secret_key: str, link: StoredLink | WrittenLink) -> str | None:
    """The token of a link; None for a URL that is too long for one."""
    recipient = number_bytes(link.recipient_id)
    if isinstance(link, StoredLink):
        content = bytes([STORED, len(recipient)]) + recipient + number_bytes(link.link_id)
    else:
        content = bytes([CODES[link.link_type], len(recipient)]) + recipient + link.url.encode()
    token = sealed(secret_key, CLICK, content)
    return token if len(token) <= LONGEST_TOKEN else None


def link_of(secret_key: str, token: str) -> StoredLink | WrittenLink | None:
    """What a token names; None for one that was not made here."""
    content = opened(secret_key, CLICK, token)
    if content is None:
        return None
    code, length, rest = content[0], content[1], content[2:]
    recipient_id = int.from_bytes(rest[:length], "big")
    if code == STORED:
        return StoredLink(recipient_id, int.from_bytes(rest[length:], "big"))
    return WrittenLink(recipient_id, WRITTEN[code], rest[length:].decode())
