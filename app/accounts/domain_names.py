"""Names of domains in the form in which they are stored and compared. Pure."""

from __future__ import annotations

import re

import idna

LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
LONGEST_NAME = 253


def domain_key(name: str) -> str:
    """The form in which domains are stored and compared: lower-case ASCII, international labels encoded.

    Raises `ValueError` unless the name is a domain with a dot.
    """
    try:
        ascii_name = idna.encode(name.strip().rstrip("."), uts46=True).decode("ascii").lower()
    except idna.IDNAError:
        ascii_name = name.strip().rstrip(".").lower()
    labels = ascii_name.split(".")
    if len(labels) < 2 or len(ascii_name) > LONGEST_NAME or not all(LABEL.fullmatch(one) for one in labels):
        raise ValueError(f"{name!r} is not a domain name such as mail.example.com")
    return ascii_name
