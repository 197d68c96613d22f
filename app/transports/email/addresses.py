"""Addresses as they go over the wire."""

from __future__ import annotations

import re

import idna

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f<>\u2028\u2029\ud800-\udfff]")


def ascii_domain(address: str) -> str:
    """`address` with an international domain in its ASCII form (`bücher.example` is `xn--bcher-kva.example`).

    That form is understood by every server, while the other one would be refused by any later one that lacks
    SMTPUTF8. A domain that has no such form stays as it is.
    """
    local, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        return f"{local}{at}{idna.encode(domain, uts46=True).decode('ascii')}"
    except idna.IDNAError:
        return address


def is_safe(address: str) -> bool:
    """Whether the address can stand in an SMTP command: no line break, space, control character or bracket."""
    return _UNSAFE.search(address) is None
