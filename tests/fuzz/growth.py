"""Looks for time that grows faster than the input, among the inputs that fuzzing has found."""

from __future__ import annotations

from tests.fuzz.targets import Target
from tests.support.growth import FACTOR, MOST_GROWTH, NOTHING, growth, seconds

ATTEMPTS = 3
HARDLY, FEW_CALLS = 0.02, 3
"""The beginning of a text is skipped if reading it takes hardly any of the time for the whole text, or as long as a few
calls with the shortest one."""
PARTS = 64
"""The beginning is known to one of so many parts of the text."""


def find_growth(target: Target, data: bytes) -> str:
    """How the cost of a byte grows when the input is repeated; empty if it does not.

    Of very many measurements some are disturbed by other programs: what grows does so each time.
    """
    if not data or target.largest < FACTOR * len(data):
        return ""
    most = target.largest // len(data)
    whole = _seconds(target, data * most)
    if whole < NOTHING * len(data) * most or _growth_after_beginning(target, data, most, whole) <= MOST_GROWTH:
        return ""
    factor = MOST_GROWTH
    for _ in range(ATTEMPTS):
        factor = growth(target.read, lambda size: data * max(1, size // len(data)), target.largest)
        if factor <= MOST_GROWTH:
            return ""
    return f"the cost of a byte grows {factor:.1f} times,"


def _growth_after_beginning(target: Target, data: bytes, most: int, whole: float) -> float:
    """The factor by which the cost of a byte is higher in the whole text, which takes `whole` seconds, than in the
    first quarter of what follows its beginning. What a reader skips, or refuses up to some length, costs next to
    nothing and is no part of the growth."""
    few_calls = FEW_CALLS * _seconds(target, data)
    if whole <= few_calls:
        return 1.0
    most_for_skipping = max(HARDLY * whole, few_calls)
    skipped, read = 0, most
    while read - skipped > max(1, most // PARTS):
        middle = (skipped + read) // 2
        if seconds(target.read, data * middle, 1) <= most_for_skipping:
            skipped = middle
        else:
            read = middle
    beginning = _seconds(target, data * skipped)
    quarter = max(1, (most - skipped) // 4)
    first = _seconds(target, data * (skipped + quarter)) - beginning
    return (whole - beginning) / (most - skipped) * quarter / first if first > 0 else FACTOR


def _seconds(target: Target, text: bytes) -> float:
    """The time that a reader takes for the text."""
    return min(seconds(target.read, text, 1) for _ in range(ATTEMPTS))
