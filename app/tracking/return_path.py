"""Signed addresses that identify a recipient (VERP): its return path, and the address that unsubscribes it.

    bounces+<token>@BOUNCE_DOMAIN
    unsubscribe+<token>@BOUNCE_DOMAIN

Mail to such an address concerns that recipient; nobody can forge one without SECRET_KEY. Mail servers may change the
case of a local part, so tokens in addresses are base32, at most 30 characters. Pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from app.addresses import domain_of
from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.tokens import encode_int, recipient_from_token, signed_bytes

BOUNCE = "bounce"
UNSUBSCRIBE_BY_MAIL = "unsubscribe by mail"

LOCAL_PARTS = {"bounces": BOUNCE, "unsubscribe": UNSUBSCRIBE_BY_MAIL}
"""Part before the plus -> purpose of the token after it."""
_BASE32 = re.compile(r"[a-z2-7]{1,64}", re.IGNORECASE)


def return_path(settings: Settings, recipient_id: int, from_address: str) -> str:
    """The envelope sender of a recipient's mail: under BOUNCE_DOMAIN, else under the sender's domain."""
    token = address_token(settings.secret_key, BOUNCE, recipient_id)
    return f"bounces+{token}@{settings.bounce_domain or domain_of(from_address)}"


def unsubscribe_address(settings: Settings, recipient_id: int) -> str | None:
    """The address at which an empty mail unsubscribes the recipient; None without BOUNCE_DOMAIN."""
    if not settings.bounce_domain:
        return None
    token = address_token(settings.secret_key, UNSUBSCRIBE_BY_MAIL, recipient_id)
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
