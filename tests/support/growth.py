"""Measures how the time of a function grows with its input: the cost per character at n and at 8n.

The processor time of the thread is measured, which other programs of the machine hardly affect. A first measure of each
is enough if they are equal. If the cost seems to grow, both are measured again in turn, five times a round, and the
best of all counts. The smaller text is then read eight times as often, so that both measurements take as long if the
cost does not grow: where other programs interrupt this one, after which the caches have to be filled again, a longer
measurement would meet more interruptions than a shorter one.
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
"""Measurements in which a function may prove that its cost does not grow, half of them with a longer text: a cost that
grows up to a bound, such as a nesting depth, has reached it there, while quadratic growth is as steep as before."""
LONG_ENOUGH = 0.0003
"""Seconds that the smaller input should take, so that the cost of one call is negligible."""
LEAST = 256
NOTHING = 50e-9
"""Seconds per character of the longest text: too few for quadratic growth."""
SPLITTINGS = 3
"""A text that is read in less time than it takes to split one of the same length so often into words is not read in
quadratic time. Where the words no longer fit the caches, which depends on the machine, the cost of each doubles or
trebles, also of a mere splitting."""
CERTAIN = FACTOR * 3 / 4
"""Growth that needs no further measurements after those of a few rounds: quadratic, and neither caches nor others that
use them, too."""
FEW_ROUNDS = 3
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`, as <malloc.h> numbers them."""
MMAP_THRESHOLD = 32 * 1024 * 1024
"""Bytes; the maximum that glibc accepts."""

Input = TypeVar("Input")


def growth(
    read: Callable[[Input], object], make: Callable[[int], Input], largest: int, *, long_enough: float = LONG_ENOUGH
) -> float:
    """The factor by which the cost per character grows from n to 8n; `largest` bounds 8n."""
    _keep_memory()
    with _without_collector():
        size = _size(read, make, largest, long_enough)
        small, large = make(size), make(FACTOR * size)
        if FACTOR * (size + 1) > largest and seconds(read, large, 1) < NOTHING * largest:
            return 1.0
        times = max(1, round(long_enough / max(seconds(read, small, 1), 1e-7)))
        cost_factor = seconds(read, large, times) / seconds(read, small, times) / FACTOR
        pairs: list[tuple[float, float]] = []
        for rounds in range(ROUNDS):
            if cost_factor <= MOST_GROWTH or (cost_factor > CERTAIN and rounds >= FEW_ROUNDS):
                break
            if rounds == ROUNDS // 2 and size < largest // FACTOR:
                size = min(4 * size, largest // FACTOR)
                small, large, times, pairs = make(size), make(FACTOR * size), max(1, times // 4), []
            pairs += [(seconds(read, small, FACTOR * times), seconds(read, large, times)) for _ in range(5)]
            cost_factor = min(large_seconds for _, large_seconds in pairs) / min(
                small_seconds for small_seconds, _ in pairs
            )
        if MOST_GROWTH < cost_factor <= CERTAIN and _cheap(read, large, FACTOR * size):
            return 1.0
    return cost_factor


def _cheap(read: Callable[[Input], object], text: Input, size: int) -> bool:
    """Whether reading the text takes about as long as splitting `size` characters into words, here and now."""
    words = "x=\n" * (size // 3)
    splitting = min(seconds(str.split, words, 1) for _ in range(5))
    return min(seconds(read, text, 1) for _ in range(5)) < SPLITTINGS * splitting


def _size(read: Callable[[Input], object], make: Callable[[int], Input], largest: int, long_enough: float) -> int:
    """An n that takes long enough, if there is one."""
    size, most = min(LEAST, largest // FACTOR), largest // FACTOR
    read(make(size))  # what the first call initializes does not count
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
    """Makes the allocator keep freed memory. Otherwise the system clears pieces above a certain size at each call,
    which is a step in the cost, at a size that depends on what the process has done before."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 32 * MMAP_THRESHOLD)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disables the garbage collector, whose time depends on the number of all objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
