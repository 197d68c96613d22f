"""Tokens of tracked links: recipient and link. Pure.

A link that is the same for all recipients is stored with its send, and the token contains its id: about 24 characters.
A link that differs between recipients is part of the token. Either way the token is signed, so that nobody can make one
that redirects elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.secret_keys import SecretKeys
from app.tracking.links import LinkType
from app.tracking.tokens import CLICK, MAX_TOKEN_LENGTH, encode_int, sign_token, verify_token

STORED = 0
INLINE: dict[int, LinkType] = {1: "html_email", 2: "text_email"}
"""First byte of a token that contains its URL."""
CODES = {link_type: code for code, link_type in INLINE.items()}


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link that is stored with its send."""

    recipient_id: int
    link_id: int


@dataclass(frozen=True, slots=True)
class InlineLink:
    """A link whose URL is part of the token."""

    recipient_id: int
    link_type: LinkType
    url: str


def link_token(secret_key: str, link: StoredLink | InlineLink) -> str | None:
    """The token of a link; None for a URL that is too long for one."""
    recipient = encode_int(link.recipient_id)
    if isinstance(link, StoredLink):
        content = bytes([STORED, len(recipient)]) + recipient + encode_int(link.link_id)
    else:
        content = bytes([CODES[link.link_type], len(recipient)]) + recipient + link.url.encode()
    token = sign_token(secret_key, CLICK, content)
    return token if len(token) <= MAX_TOKEN_LENGTH else None


def parse_link_token(secret_keys: SecretKeys, token: str) -> StoredLink | InlineLink | None:
    """The link of a token; None for an invalid token."""
    content = verify_token(secret_keys, CLICK, token)
    if content is None:
        return None
    code, length, rest = content[0], content[1], content[2:]
    recipient_id = int.from_bytes(rest[:length], "big")
    if code == STORED:
        return StoredLink(recipient_id, int.from_bytes(rest[length:], "big"))
    return InlineLink(recipient_id, INLINE[code], rest[length:].decode())
