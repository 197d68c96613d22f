"""Looks for time that grows faster than the input, among the inputs that fuzzing has found."""

from __future__ import annotations

from tests.fuzz.targets import Target
from tests.support.growth import FACTOR, MOST_GROWTH, NOTHING, growth, seconds

ATTEMPTS = 3


def find_growth(target: Target, data: bytes) -> str:
    """How the cost of a byte grows when the input is repeated; empty if it does not.

    Of very many measurements some are disturbed by other programs: what grows does so each time. A text that a reader
    takes at one length and refuses at another shows a step between the two, but the longest one is read quickly.
    """
    if not data or target.largest < FACTOR * len(data):
        return ""
    longest = data * (target.largest // len(data))
    if min(seconds(target.read, longest, 1) for _ in range(ATTEMPTS)) < NOTHING * len(longest):
        return ""
    factor = MOST_GROWTH
    for _ in range(ATTEMPTS):
        factor = growth(target.read, lambda size: data * max(1, size // len(data)), target.largest)
        if factor <= MOST_GROWTH:
            return ""
    return f"the cost of a byte grows {factor:.1f} times,"
