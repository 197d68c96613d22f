"""Ids as clients write them: whole numbers of any size, of which a column holds 64 bits."""

from __future__ import annotations

BIGGEST = 2**63 - 1
OUT_OF_RANGE = -BIGGEST - 1
"""Stands for every id that no column can hold: one that can be looked for, and is never found."""


def is_storable(number: float) -> bool:
    """Whether a column can hold the number as an id."""
    return abs(number) <= BIGGEST


def describe(noun: str, number: int) -> str:
    """What is looked for, as errors speak of it: `list 12`."""
    return f"{noun} with an id beyond 64 bits" if number == OUT_OF_RANGE else f"{noun} {number}"
