"""How a process that stays treats its memory; called once, when it has loaded what it needs."""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Names of glibc's settings, as <malloc.h> numbers them."""
LARGE = 1024 * 1024
"""Bytes from which a piece of memory is asked of the system by itself, and given back as soon as it is free. Pages of a
thousand contacts are smaller: to have the system clear their memory anew each time would cost more than to keep it."""


def tune() -> None:
    """Keeps the garbage collector and the allocator from what makes a long-lived process slow and large.

    What is loaded by now stays: left to the collector, it would be looked through again and again while thousands of
    rows come and go, which took a tenth of a worker's time. And glibc would raise by itself the size from which memory
    goes back to the system, up to 32 MiB: after a few large attachments their room would stay taken for ever.
    """
    gc.collect()
    gc.freeze()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # another system's library
    mallopt(M_MMAP_THRESHOLD, LARGE)
    mallopt(M_TRIM_THRESHOLD, LARGE)
    mallopt(M_ARENA_MAX, 2)
