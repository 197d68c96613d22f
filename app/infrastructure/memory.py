"""Memory tuning of a long-lived process; called once, when all modules are loaded."""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`, as <malloc.h> numbers them."""
LARGE = 1024 * 1024
"""Bytes from which an allocation is mapped separately, and returned to the system as soon as it is free. Pages of a
thousand contacts are smaller: having the system zero their memory each time would cost more than keeping it."""


def tune() -> None:
    """Keeps the garbage collector from rescanning loaded modules, and the allocator from keeping large blocks.

    Loaded objects stay: the collector would scan them again and again while thousands of rows come and go, which took a
    tenth of a worker's time. And glibc would automatically raise the size from which memory is returned to the system,
    up to 32 MiB: after a few large attachments their memory would never be returned.
    """
    gc.collect()
    gc.freeze()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # not glibc
    mallopt(M_MMAP_THRESHOLD, LARGE)
    mallopt(M_TRIM_THRESHOLD, LARGE)
    mallopt(M_ARENA_MAX, 2)
