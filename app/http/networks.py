"""The networks from which an account may be used (docs/requests.md#order-of-checks)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from app.errors import ServiceError
from app.http.context import client_address


def check_network(allowed_networks: Sequence[str]) -> None:
    """Checks the account's allow-list of networks; an empty one allows all. Raises `ip_restricted`."""
    if not allowed_networks:
        return
    address = client_address()
    networks = (ipaddress.ip_network(text, strict=False) for text in allowed_networks)
    if address is None or not any(address in network for network in networks):
        raise ServiceError("ip_restricted")
