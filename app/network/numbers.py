"""Hosts that are addresses: nobody has to be asked for them."""

from __future__ import annotations

import ipaddress
import socket


def is_address(host: str) -> bool:
    """Whether the host is an IP address in its usual form."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def number_of(host: str) -> str | None:
    """The address that the host is, also in a form that only resolvers read, such as `127.1` or `0x7f000001`; None for
    a name."""
    if is_address(host):
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None
