"""The setting DNS_RESOLVER."""

from __future__ import annotations

import pytest

from app.settings import parse_name_server
from tests.support.cases import each


@each(
    ("text", "address"),
    [
        ("192.0.2.53", "192.0.2.53:53"),
        ("127.0.0.1:5353", "127.0.0.1:5353"),
        ("2001:db8::53", "[2001:db8::53]:53"),
        ("[2001:db8::53]:5353", "[2001:db8::53]:5353"),
        ("[2001:db8::53]", "[2001:db8::53]:53"),
    ],
)
def test_an_address_with_or_without_a_port_is_accepted(text: str, address: str) -> None:
    assert parse_name_server(text) == address


@each("text", ["dns.example", "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:70000", "192.0.2.300", "::x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_name_server(text)
