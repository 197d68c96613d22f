"""Looks for time that grows faster than the input, among the inputs that fuzzing has found."""

from __future__ import annotations

from tests.fuzz.targets import Target
from tests.support.growth import FACTOR, MOST_GROWTH, growth

ATTEMPTS = 3


def find_growth(target: Target, data: bytes) -> str:
    """How the cost of a byte grows when the input is repeated; empty if it does not.

    Of very many measurements some are disturbed by other programs: what grows does so each time."""
    if not data or target.largest < FACTOR * len(data):
        return ""
    factor = MOST_GROWTH
    for _ in range(ATTEMPTS):
        factor = growth(target.read, lambda size: data * max(1, size // len(data)), target.largest)
        if factor <= MOST_GROWTH:
            return ""
    return f"the cost of a byte grows {factor:.1f} times,"
