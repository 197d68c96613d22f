"""SSRF guard: the rules for the URL of a webhook and for the addresses of its host (docs/webhooks.md#ssrf-guard).

A host is checked twice: at registration (`registration`), so that whoever registers it gets the error, and at each
connection, which goes to exactly the address that was checked, so that a name server cannot answer differently in
between. Nothing here waits for a name server.
"""

from __future__ import annotations

import contextlib
import ipaddress
from typing import NewType
from urllib.parse import SplitResult, urlsplit

import idna

from app.network.numbers import number_of
from app.settings import Settings

CheckedUrl = NewType("CheckedUrl", str)
"""One that `check_form` has accepted."""

MAX_URL_LENGTH = 2000

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is routed. Outside it are link-local, site-local, unique local, multicast and embedded IPv4
addresses."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")


class ForbiddenAddress(ValueError):
    """A URL or a host that webhooks must not reach; the text is one line for the operator."""


def check_form(url: str, settings: Settings) -> CheckedUrl:
    """The URL, unless its form or an address in it shows that it cannot be registered. Raises `ForbiddenAddress` (a
    `ValueError`)."""
    parts = split_url(url, allow_private=settings.webhook_allow_private)
    if not settings.webhook_allow_private:
        host = ascii_host(parts)
        address = number_of(host)
        if address is not None:
            check_addresses(host, [address])
    return CheckedUrl(url)


def has_name(url: CheckedUrl) -> bool:
    """Whether the host is a name, whose addresses only a name server can tell."""
    return number_of(ascii_host(urlsplit(url))) is None


def is_for_development(url: str) -> bool:
    """Whether the URL could be registered with WEBHOOK_ALLOW_PRIVATE."""
    with contextlib.suppress(ForbiddenAddress):
        split_url(url, allow_private=True)
        return True
    return False


def split_url(url: str, *, allow_private: bool) -> SplitResult:
    """The parts of a webhook's URL, with scheme, host and port checked. Raises `ForbiddenAddress`."""
    if len(url) > MAX_URL_LENGTH or not url.isprintable() or " " in url:
        raise ForbiddenAddress(f"must be a URL of at most {MAX_URL_LENGTH} characters without spaces")
    try:
        parts = urlsplit(url)
        usable = bool(ascii_host(parts)) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ForbiddenAddress("must be an absolute URL with a valid host and port")
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        raise ForbiddenAddress("must begin with https://" + (" or http://" if allow_private else ""))
    if "@" in parts.netloc or parts.fragment:
        raise ForbiddenAddress("must not have a user, a password or a fragment")
    return parts


def ascii_host(parts: SplitResult) -> str:
    """The host in the form that DNS and certificates use. Raises `ValueError` for an invalid one."""
    host = parts.hostname or ""
    if not host.isascii():
        return idna.encode(host, uts46=True).decode("ascii")
    return host.encode("idna").decode("ascii")


def check_addresses(host: str, addresses: list[str]) -> None:
    """Raises `ForbiddenAddress` unless every one is global: a single private one is enough for an attack."""
    for address in addresses:
        if not is_public(address):
            raise ForbiddenAddress(f"leads to {address} ({host}), which is not a public address")


def is_public(text: str) -> bool:
    """Whether this is an address of the public Internet; IPv4 embedded in IPv6 is judged as IPv4.

    Stricter than `is_global`, whose answers differ between Python versions and include multicast and site-local ones.
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        embedded = _embedded(address)
        if embedded is None:
            return _is_public_ipv6(address)
        address = embedded
    return address.is_global and not address.is_multicast and not address.is_reserved


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _is_public_ipv6(address: ipaddress.IPv6Address) -> bool:
    # 6to4 also hides an IPv4 address, but its relays are gone from the Internet (RFC 7526).
    return (
        address.is_global and address in GLOBAL_UNICAST and address not in SIX_TO_FOUR and address not in DOCUMENTATION
    )
