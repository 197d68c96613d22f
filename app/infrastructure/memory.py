"""Memory tuning of a long-lived process: the garbage collector is off while modules are loaded (`gc.disable()`), and
`tune` is called once they are."""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`, as <malloc.h> numbers them."""
LARGE = 1024 * 1024
"""Bytes from which an allocation is mapped separately, and returned to the system as soon as it is free. Pages of a
thousand contacts are smaller: having the system zero their memory each time would cost more than keeping it."""


def tune() -> None:
    """Turns the garbage collector on without having it scan loaded modules, and keeps the allocator from keeping large
    blocks. Processes that are forked afterwards have both, and share the memory of what is loaded.

    Loaded objects stay: the collector would scan them again and again while thousands of rows come and go, which took a
    tenth of a worker's time. Even once takes a tenth of a start, for garbage of less than a megabyte.

    And glibc would automatically raise the size from which memory is returned to the system, up to 32 MiB: after a few
    large attachments their memory would never be returned.
    """
    gc.freeze()
    gc.enable()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # not glibc
    mallopt(M_MMAP_THRESHOLD, LARGE)
    mallopt(M_TRIM_THRESHOLD, LARGE)
    mallopt(M_ARENA_MAX, 2)
