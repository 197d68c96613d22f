"""Which clients belong together: those of one address, or of one network that is given to a single customer."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from app.http.proxies import without_port

SIX_BYTES = 8
"""Bytes of an IPv6 address that name a customer's network: whoever has one address has all of its /64."""
MAPPED = bytes(10) + b"\xff\xff"
LOCAL = "local"
"""The key of clients of a socket in the file system."""
MOST = 100
"""Characters of a key: a proxy may pass on what a client has sent."""


def client_key(client: Any) -> str:
    """The key of a client by the address that its socket has."""
    return address_key(client[0]) if isinstance(client, tuple) else LOCAL


def address_key(address: str) -> str:
    """The key of an address; any text that is none is its own."""
    if ":" not in address:
        return address
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    return socket.inet_ntoa(packed[12:]) if packed.startswith(MAPPED) else packed[:SIX_BYTES].hex()


def forwarded_key(headers: Sequence[tuple[str, str]], hops: int) -> str | None:
    """The key of the address that the first of that many trusted proxies has seen; None if they do not tell it."""
    seen = ",".join(value for name, value in headers if name == "X-FORWARDED-FOR").split(",")
    return address_key(without_port(seen[-hops])[:MOST]) if len(seen) >= hops and seen[-hops].strip() else None
