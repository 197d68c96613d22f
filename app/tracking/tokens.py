"""Tracking tokens: a content, mostly a recipient's id, with a signature, in a link or in an address. Pure.

A token consists of the id's bytes and ten bytes of a keyed hash: 16 to 24 characters, short enough for a text message,
that nobody can forge without SECRET_KEY. Those that one of its fallbacks has signed stay valid. Each kind of link signs
with its own purpose, so that a token of one is invalid for another.

Signed addresses identify a recipient (VERP): its return path, and the address that unsubscribes it.

    bounces+<token>@BOUNCE_DOMAIN
    unsubscribe+<token>@BOUNCE_DOMAIN

Mail to such an address concerns that recipient. Mail servers may change the case of a local part, so tokens in
addresses are base32, at most 30 characters.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from functools import lru_cache

from app.addresses import domain_of
from app.secret_keys import SecretKeys
from app.settings import Settings

UNSUBSCRIBE_PURPOSE = "unsubscribe"
PREFERENCES_PURPOSE = "preferences"
OPEN_PURPOSE = "open"
CLICK_PURPOSE = "click"
SMS_RECEIPT_PURPOSE = "sms receipt"
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


BOUNCE_PURPOSE = "bounce"
UNSUBSCRIBE_BY_MAIL_PURPOSE = "unsubscribe by mail"

LOCAL_PARTS = {"bounces": BOUNCE_PURPOSE, "unsubscribe": UNSUBSCRIBE_BY_MAIL_PURPOSE}
"""Part before the plus -> purpose of the token after it."""
_BASE32 = re.compile(r"[a-z2-7]{1,64}", re.IGNORECASE)


def return_path(settings: Settings, recipient_id: int, from_address: str) -> str:
    """The envelope sender of a recipient's mail: under BOUNCE_DOMAIN, else under the sender's domain."""
    token = address_token(settings.secret_key, BOUNCE_PURPOSE, recipient_id)
    return f"bounces+{token}@{settings.bounce_domain or domain_of(from_address)}"


def unsubscribe_address(settings: Settings, recipient_id: int) -> str | None:
    """The address at which an empty mail unsubscribes the recipient; None without BOUNCE_DOMAIN."""
    if not settings.bounce_domain:
        return None
    token = address_token(settings.secret_key, UNSUBSCRIBE_BY_MAIL_PURPOSE, recipient_id)
    return f"unsubscribe+{token}@{settings.bounce_domain}"


def is_signed_form(address: str) -> bool:
    """Whether the address has the form of one of ours, genuine or not."""
    local, plus, _ = address.rpartition("@")[0].partition("+")
    return bool(plus) and local.lower() in LOCAL_PARTS


def recipient_of_address(secret_keys: SecretKeys, address: str) -> tuple[str, int] | None:
    """The purpose and the recipient's id; None for an address that is not validly signed.

    The domain is ignored: mail that was sent under a former BOUNCE_DOMAIN still bounces to it.
    """
    return number_of_address(secret_keys, address, LOCAL_PARTS)


def number_of_address(secret_keys: SecretKeys, address: str, local_parts: Mapping[str, str]) -> tuple[str, int] | None:
    """The purpose and the number of an address whose local part begins with one of these; None for an address that is
    not validly signed."""
    local, _, token = address.strip().rpartition("@")[0].partition("+")
    purpose = local_parts.get(local.lower())
    if purpose is None or not _BASE32.fullmatch(token):
        return None
    try:
        signed = base64.b32decode(token.upper() + "=" * (-len(token) % 8))
    except ValueError:
        return None
    number = recipient_from_token(secret_keys, purpose, base64.urlsafe_b64encode(signed).decode().rstrip("="))
    # The last character has spare bits: only one spelling of each address is accepted.
    if number is None or token.lower() != _address_form(signed):
        return None
    return purpose, number


def address_token(secret_key: str, purpose: str, number: int) -> str:
    """A token that does not depend on case."""
    return _address_form(signed_bytes(secret_key, purpose, encode_int(number)))


def _address_form(signed: bytes) -> str:
    return base64.b32encode(signed).decode().rstrip("=").lower()
