"""IP addresses of clients, and the networks by which clients are told apart. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

NETWORK_BITS = 64
"""Bits of an IPv6 address that identify a client: whoever has one address has all of that network."""


@lru_cache(maxsize=1024)
def ip_address_in(text: str) -> IpAddress | None:
    """The address that a text is, an IPv4-mapped IPv6 address as IPv4; None if it is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def network_of(address: IpAddress | None) -> str:
    """The address of a client, of one with IPv6 its network; empty for a client without an address."""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return str(address or "")
