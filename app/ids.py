"""Ids from clients: whole numbers of any size, of which a column stores 64 bits."""

from __future__ import annotations

BIGGEST = 2**63 - 1
OUT_OF_RANGE = -BIGGEST - 1
"""Replaces every id that no column can store: it can be looked up, and is never found."""


def is_storable(number: float) -> bool:
    """Whether a column can store the number as an id."""
    return abs(number) <= BIGGEST


def describe(noun: str, number: int) -> str:
    """The row in an error text: `list 12`."""
    return f"{noun} with an id beyond 64 bits" if number == OUT_OF_RANGE else f"{noun} {number}"
