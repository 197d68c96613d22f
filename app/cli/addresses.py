"""Addresses as operators write them."""

from __future__ import annotations

from app.addresses import AddressKind, is_valid_email, is_valid_mobile
from app.cli.base import WrongValue


def address_kind(text: str, *, besides: str = "") -> AddressKind:
    """The kind of an address. Raises `WrongValue` for any other text; `besides` is what else would be accepted."""
    if "@" in text and is_valid_email(text):
        return "email"
    if "@" not in text and is_valid_mobile(text):
        return "mobile"
    raise WrongValue(f"{text!r} is neither {besides}an email address nor a mobile number such as 61411111111")
