"""How the time that a function takes grows with its input: the cost per character at n and at 8n.

What is measured is the processor time of the thread, which other programs of the machine touch little. A first measure
of each is enough where they are alike. What looks as if it grew is measured again, both in turn, five times a round,
and the best of all counts.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TypeVar

FACTOR = 8
MOST_GROWTH = 1.5
ROUNDS = 30
"""Measures in which a function may show that it does not grow, half of them with a longer text: what grows up to a
bound, such as the depth of what is nested, has reached it there, and a square is as steep as before."""
LONG_ENOUGH = 0.0003
"""Seconds that the smaller input should take, so that the cost of one call counts for nothing."""
LEAST = 256
NOTHING = 20e-9
"""Seconds for a character of the longest text, which are those of copying it: too few for a square to be in them."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's settings, as <malloc.h> numbers them."""
KEPT = 32 * 1024 * 1024
"""Bytes; the most that glibc takes."""

Input = TypeVar("Input")


def growth(
    read: Callable[[Input], object], make: Callable[[int], Input], largest: int, *, long_enough: float = LONG_ENOUGH
) -> float:
    """By what factor the cost per character grows from n to 8n; `largest` bounds the 8n."""
    _keep_memory()
    with _without_collector():
        size = _size(read, make, largest, long_enough)
        small, large = make(size), make(FACTOR * size)
        if FACTOR * (size + 1) > largest and seconds(read, large, 1) < NOTHING * largest:
            return 1.0
        times = max(1, round(long_enough / max(seconds(read, small, 1), 1e-7)))
        found = seconds(read, large, times) / seconds(read, small, times) / FACTOR
        pairs: list[tuple[float, float]] = []
        for rounds in range(ROUNDS):
            if found <= MOST_GROWTH or (found > 2 * MOST_GROWTH and rounds):
                break
            if rounds == ROUNDS // 2 and size < largest // FACTOR:
                size = min(4 * size, largest // FACTOR)
                small, large, times, pairs = make(size), make(FACTOR * size), max(1, times // 4), []
            pairs += [(seconds(read, small, times), seconds(read, large, times)) for _ in range(5)]
            found = min(of_large for _, of_large in pairs) / min(of_small for of_small, _ in pairs) / FACTOR
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


@cache
def _keep_memory() -> None:
    """Has the allocator keep what is freed. Else pieces above a size are cleared anew by the system at each call, which
    makes one step in the cost, at a size that depends on what the process has done before."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, KEPT)
        mallopt(M_TRIM_THRESHOLD, 32 * KEPT)


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
