"""Mail addresses in SMTP commands and headers."""

from __future__ import annotations

import re

import idna

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f<>\u2028\u2029\ud800-\udfff]")


def ascii_domain(address: str) -> str:
    """`address` with an international domain in its ASCII form (`bücher.example` is `xn--bcher-kva.example`).

    Every server understands that form, whereas any server on the way without SMTPUTF8 would refuse the other one. A
    domain without an ASCII form is left unchanged.
    """
    if address.isascii():
        return address
    local, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        return f"{local}{at}{idna.encode(domain, uts46=True).decode('ascii')}"
    except idna.IDNAError:
        return address


def is_safe(address: str) -> bool:
    """Whether the address is safe in an SMTP command: no line break, space, control character or bracket."""
    return _UNSAFE.search(address) is None
