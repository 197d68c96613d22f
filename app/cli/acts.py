"""Addresses as operators write them, and the hashes by which the audit log knows them."""

from __future__ import annotations

from app.addresses import AddressKind, is_valid_email, is_valid_mobile, normalize_address
from app.cli.base import WrongValue
from app.http.context import services
from app.infrastructure.digests import address_digests


def address_kind(text: str, *, besides: str = "") -> AddressKind:
    """The kind of an address. Raises `WrongValue` for any other text; `besides` is what else would be accepted."""
    if "@" in text and is_valid_email(text):
        return "email"
    if "@" not in text and is_valid_mobile(text):
        return "mobile"
    raise WrongValue(f"{text!r} is neither {besides}an email address nor a mobile number such as 61411111111")


def digests_of(address: str) -> list[str]:
    """The keyed hashes by which entries of the audit log may know the address."""
    return address_digests(services().settings.secret_keys, normalize_address(address_kind(address), address))
