"""The search for growing time among the inputs that fuzzing has found (docs/security-tests.md#fuzzing)."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.fuzz.growth import find_growth
from tests.fuzz.targets import Target
from tests.scaling.reader import KIB

SKIPPED, LONGEST = 256, 4 * KIB
TEXT = b" " * 16


def growth_of(read: Callable[[bytes], object]) -> str:
    return find_growth(Target("a reader", read, (), (), largest=LONGEST), TEXT)


def replace_each(text: bytes) -> bytes:
    return re.sub(rb" ", lambda match: match[0], text)


def replace_with_growing_time(text: bytes) -> bytes:
    return re.sub(rb" *x", b"", text)


def test_a_cost_in_proportion_is_no_growth() -> None:
    assert growth_of(replace_each) == ""


def test_time_that_grows_is_found() -> None:
    assert "grows" in growth_of(replace_with_growing_time)


def test_a_beginning_that_is_skipped_is_no_growth() -> None:
    """The cost of a byte seems to grow where a reader skips the first part of its text."""
    assert growth_of(lambda text: replace_each(text[SKIPPED:])) == ""


def test_what_a_call_costs_anyway_is_no_growth() -> None:
    """It is small beside the time for the whole text, but not beside that for a beginning that is skipped."""

    def read(text: bytes) -> None:
        replace_each(TEXT * 8)
        replace_each(text[LONGEST // 4 :])

    assert growth_of(read) == ""


def test_time_that_grows_after_a_skipped_beginning_is_found() -> None:
    assert "grows" in growth_of(lambda text: replace_with_growing_time(text[SKIPPED:]))
