"""Looks for time that grows faster than the input, among the inputs that fuzzing has found."""

from __future__ import annotations

from tests.fuzz.targets import Target
from tests.support.growth import FACTOR, MOST_GROWTH, NOTHING, growth, seconds

ATTEMPTS = 3
MOST_TO_TWICE = 1.2
"""What grows by more than `MOST_GROWTH` from n to 8n in proportion to n grows by more than this from 4n to 8n."""


def find_growth(target: Target, data: bytes) -> str:
    """How the cost of a byte grows when the input is repeated; empty if it does not.

    Of very many measurements some are disturbed by other programs: what grows does so each time. A text that a reader
    takes at one length and refuses or folds at another shows a step between the two, but no growth after it.
    """
    if not data or target.largest < FACTOR * len(data):
        return ""
    longest = data * (target.largest // len(data))
    cost = _cost(target, longest)
    if cost < NOTHING or cost < MOST_TO_TWICE * _cost(target, longest[: len(longest) // 2]):
        return ""
    factor = MOST_GROWTH
    for _ in range(ATTEMPTS):
        factor = growth(target.read, lambda size: data * max(1, size // len(data)), target.largest)
        if factor <= MOST_GROWTH:
            return ""
    return f"the cost of a byte grows {factor:.1f} times,"


def _cost(target: Target, data: bytes) -> float:
    """Seconds for a byte."""
    return min(seconds(target.read, data, 1) for _ in range(ATTEMPTS)) / len(data)
