"""Tokens in links: a recipient's id and a signature over it, short enough for a text message. Pure.

A token is made of the id's bytes and ten bytes of a keyed hash: 16 to 24 characters that nobody can make for another
recipient without SECRET_KEY. Each kind of link signs under its own purpose, so a token of one is void for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

UNSUBSCRIBE = "unsubscribe"
SIGNATURE_BYTES = 10
_TOKEN = re.compile(r"[A-Za-z0-9_-]{15,24}")


def recipient_token(secret_key: str, purpose: str, recipient_id: int) -> str:
    """The token of a recipient for links of this purpose."""
    number = recipient_id.to_bytes((recipient_id.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(number + _signature(secret_key, purpose, number)).decode("ascii").rstrip("=")


def recipient_of(secret_key: str, purpose: str, token: str) -> int | None:
    """The recipient's id; None for a token that was not made here for this purpose."""
    if not _TOKEN.fullmatch(token):
        return None
    try:
        signed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        return None
    recipient_id = int.from_bytes(signed[:-SIGNATURE_BYTES], "big")
    # The text itself is compared: the last character has bits to spare, and with others there it is no link of ours.
    made_here = hmac.compare_digest(token, recipient_token(secret_key, purpose, recipient_id))
    return recipient_id if made_here else None


def _signature(secret_key: str, purpose: str, number: bytes) -> bytes:
    key = f"transactional-messaging-service {purpose} links\0{secret_key}".encode()
    return hmac.digest(key, number, hashlib.sha256)[:SIGNATURE_BYTES]
