"""Tracking tokens: a content, mostly a recipient's id, with a signature. Pure.

A token consists of the id's bytes and ten bytes of a keyed hash: 16 to 24 characters, short enough for a text message,
that nobody can forge without SECRET_KEY. Those that one of its fallbacks has signed stay valid. Each kind of link signs
with its own purpose, so that a token of one is invalid for another.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from functools import lru_cache

from app.secret_keys import SecretKeys

UNSUBSCRIBE = "unsubscribe"
OPEN = "open"
CLICK = "click"
SMS_RECEIPT = "sms receipt"
SIGNATURE_BYTES = 10
MAX_TOKEN_LENGTH = 3000
"""Characters; with the path before it, well below the limits of web servers for a request line."""
_URL_SAFE = str.maketrans("+/", "-_")
_RECIPIENT_TOKEN = re.compile(r"[A-Za-z0-9_-]{15,24}")
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{15,{MAX_TOKEN_LENGTH}}}")


def recipient_token(secret_key: str, purpose: str, recipient_id: int) -> str:
    """The token of a recipient for links of this purpose."""
    return sign_token(secret_key, purpose, encode_int(recipient_id))


def recipient_from_token(secret_keys: SecretKeys, purpose: str, token: str) -> int | None:
    """The recipient's id; None for a token that is not validly signed for this purpose."""
    if not _RECIPIENT_TOKEN.fullmatch(token):
        return None
    number = verify_token(secret_keys, purpose, token)
    return None if number is None else int.from_bytes(number, "big")


def encode_int(number: int) -> bytes:
    """An integer, big-endian, in as few bytes as possible."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def sign_token(secret_key: str, purpose: str, content: bytes) -> str:
    """The content with its signature, as base64url."""
    text = binascii.b2a_base64(signed_bytes(secret_key, purpose, content), newline=False).decode("ascii")
    return text.rstrip("=").translate(_URL_SAFE)


def signed_bytes(secret_key: str, purpose: str, content: bytes) -> bytes:
    """The content with its signature."""
    signature = _keyed(secret_key, purpose).copy()
    signature.update(content)
    return content + signature.digest()[:SIGNATURE_BYTES]


def verify_token(secret_keys: SecretKeys, purpose: str, token: str) -> bytes | None:
    """The content of a token; None for one that is not validly signed for this purpose, by any of the keys."""
    if not _TOKEN.fullmatch(token):
        return None
    try:
        signed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        return None
    content = signed[:-SIGNATURE_BYTES]
    # The text itself is compared, because the last character has spare bits: only one spelling is accepted.
    is_valid = any(hmac.compare_digest(token, sign_token(key, purpose, content)) for key in secret_keys)
    return content if is_valid else None


@lru_cache(maxsize=256)
def _keyed(secret_key: str, purpose: str) -> hmac.HMAC:
    """The hash with its key and no content yet: a copy of it takes half the time of a new one."""
    key = f"transactional-messaging-service {purpose} links\0{secret_key}".encode()
    return hmac.new(key, digestmod="sha256")
