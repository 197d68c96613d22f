"""Accounts: the tenants of the service."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import is_valid_email
from app.clock import find_zone, this_second
from app.db.models import Account
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.names import check_name
from app.settings import parse_rate, parse_retention

# The name and the colour of an account on the pages that recipients see (docs/unsubscribing.md#pages-for-recipients).

MAX_NAME_LENGTH = 100
COLOUR = re.compile(r"#[0-9a-f]{6}")
BLACK, WHITE = "#000000", "#ffffff"


@dataclass(frozen=True, slots=True)
class Brand:
    """Either is None if the account has none. `colour` is such as `#0a66c2`."""

    name: str | None = None
    colour: str | None = None

    @property
    def text_colour(self) -> str:
        """The colour of text on a brand colour: the one of black and white that is easier to read."""
        light = _luminance(self.colour or BLACK)
        return BLACK if (light + 0.05) ** 2 > 0.05 * 1.05 else WHITE


def _luminance(colour: str) -> float:
    """The relative luminance by which WCAG 2 measures contrast, from 0 to 1."""
    shares = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def checked_brand_name(text: str) -> str:
    """The name without surrounding white space. Raises `not_empty`, `too_long` or `invalid_string`."""
    return check_name(text.strip(), "brand_name", MAX_NAME_LENGTH)


def checked_colour(text: str) -> str:
    """The colour in lower case. Raises `invalid_string`."""
    colour = text.strip().lower()
    if not COLOUR.fullmatch(colour):
        detail = f"{text!r} is not a colour such as #0a66c2"
        raise ServiceError("invalid_string", field="brand_colour", detail=detail)
    return colour


ADDRESS_ATTRIBUTES = ("owner_email", "default_from_address")
DEFAULT_ZONE = "UTC"
RETENTION_ATTRIBUTES = ("retain_content", "retain_recipients", "retain_captured", "retain_logs", "retain_audit")
PRIORITIES = ("high", "normal")
DEFAULT_PRIORITY = "normal"


def account_named(session: Session, name: str) -> Account | None:
    """The account of exactly that name."""
    return session.scalars(select(Account).where(Account.name == name)).first()


def create_account(session: Session, attributes: Mapping[str, Any]) -> Account:
    """A new account. `attributes` are columns of `Account`; `name` is required.

    Raises `ServiceError`: `conflict` if the name is taken, otherwise like `update_account`.
    """
    if "name" not in attributes:
        raise ServiceError("required", field="name")
    checked = _checked(attributes)
    _check_free(session, checked["name"])
    moment = this_second()
    account = Account(**checked, creation_time=moment, last_modified_time=moment)
    session.add(account)
    session.flush()
    return account


def update_account(session: Session, account: Account, attributes: Mapping[str, Any]) -> bool:
    """Changes the given attributes; returns whether any differed.

    Raises `ServiceError`: `conflict` if the name is taken, `invalid_email_address` for an invalid address, `not_empty`
    or `too_long` for the name or that of the brand, `invalid_string` for an invalid network, rate limit, retention,
    priority or colour, `invalid_time_zone`.
    """
    checked = _checked(attributes)
    if checked.get("name", account.name) != account.name:
        _check_free(session, checked["name"])
    return apply_changes(account, checked)


def _check_free(session: Session, name: str) -> None:
    if account_named(session, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"there is already an account {name!r}")


def _checked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    checked = dict(attributes)
    if "name" in checked:
        check_name(checked["name"])
    for attribute in ADDRESS_ATTRIBUTES:
        address = checked.get(attribute)
        if address is not None and not is_valid_email(address):
            raise ServiceError("invalid_email_address", field=attribute, detail=f"{address!r} is not an email address")
    if "allowed_networks" in checked:
        checked["allowed_networks"] = [_network(text, i) for i, text in enumerate(checked["allowed_networks"])]
    if checked.get("rate_limit") is not None:
        _check_rate(checked["rate_limit"])
    for attribute in RETENTION_ATTRIBUTES:
        if checked.get(attribute) is not None:
            checked[attribute] = _retention(attribute, checked[attribute])
    if checked.get("brand_name") is not None:
        checked["brand_name"] = checked_brand_name(checked["brand_name"])
    if checked.get("brand_colour") is not None:
        checked["brand_colour"] = checked_colour(checked["brand_colour"])
    if "time_zone" in checked:
        checked["time_zone"] = _zone(checked["time_zone"])
    for attribute in ("email_priority", "sms_priority"):
        if attribute in checked:
            checked[attribute] = _priority(attribute, checked[attribute])
    return checked


def _priority(attribute: str, text: str | None) -> str:
    """The validated priority; the default for None."""
    if text is None:
        return DEFAULT_PRIORITY
    if text not in PRIORITIES:
        raise ServiceError("invalid_string", field=attribute, detail=f"{text!r} is not one of high, normal")
    return text


def _network(text: str, index: int) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        detail = f"{error}; write a network such as 192.0.2.0/24 or 2001:db8::/32"
        raise ServiceError("invalid_string", field=f"allowed_networks.{index}", detail=detail) from None


def _zone(name: str | None) -> str:
    """The validated name; the default for None."""
    if name is None:
        return DEFAULT_ZONE
    if find_zone(name) is None:
        detail = f"{name!r} is not the name of an IANA time zone, such as Australia/Brisbane"
        raise ServiceError("invalid_time_zone", field="time_zone", detail=detail)
    return name


def _retention(attribute: str, text: str) -> str:
    """The validated retention, in lower case."""
    try:
        parse_retention(text)
    except ValueError as error:
        raise ServiceError("invalid_string", field=attribute, detail=f"{text!r} {error}") from None
    return text.strip().lower()


def _check_rate(text: str) -> None:
    try:
        parse_rate(text)
    except ValueError as error:
        raise ServiceError("invalid_string", field="rate_limit", detail=f"{text!r} {error}") from None
