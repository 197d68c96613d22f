"""How the time that a function takes grows with its input: the cost per character at n and at 8n.

What is measured is the processor time of the thread, which other programs of the machine touch little. A first measure
of each is enough where they are alike. What looks as if it grew is measured again, the best of five each time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

FACTOR = 8
MOST_GROWTH = 1.5
ROUNDS = 4
"""Measures in which a function may show that it does not grow."""
LONG_ENOUGH = 0.0003
"""Seconds that the smaller input should take, so that the cost of one call counts for nothing."""
LEAST = 256
NOTHING = 20e-9
"""Seconds for a character of the longest text, which are those of copying it: too few for a square to be in them."""

Input = TypeVar("Input")


def growth(
    read: Callable[[Input], object], make: Callable[[int], Input], largest: int, *, long_enough: float = LONG_ENOUGH
) -> float:
    """By what factor the cost per character grows from n to 8n; `largest` bounds the 8n."""
    with _without_collector():
        size = _size(read, make, largest, long_enough)
        small, large = make(size), make(FACTOR * size)
        if FACTOR * (size + 1) > largest and seconds(read, large, 1) < NOTHING * largest:
            return 1.0
        times = max(1, round(long_enough / max(seconds(read, small, 1), 1e-7)))
        found = seconds(read, large, times) / seconds(read, small, times) / FACTOR
        for rounds in range(ROUNDS):
            if found <= MOST_GROWTH or (found > 2 * MOST_GROWTH and rounds):
                break
            best_large = min(seconds(read, large, times) for _ in range(5))
            best_small = min(seconds(read, small, times) for _ in range(5))
            found = best_large / best_small / FACTOR
    return found


def _size(read: Callable[[Input], object], make: Callable[[int], Input], largest: int, long_enough: float) -> int:
    """An n that takes long enough, as far as there is one."""
    size, most = min(LEAST, largest // FACTOR), largest // FACTOR
    read(make(size))  # what is made at a first call is no part of the cost
    while size < most and seconds(read, make(size), 1) < long_enough:
        size = min(2 * size, most)
    return size


def seconds(read: Callable[[Input], object], given: Input, times: int) -> float:
    """The processor time of so many calls."""
    began = time.thread_time()
    for _ in range(times):
        read(given)
    return time.thread_time() - began


@contextmanager
def _without_collector() -> Iterator[None]:
    """Collecting garbage takes longer the more there is of anything."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
