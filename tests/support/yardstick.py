"""Compares this processor with the one for which limits of processor time were set."""

from __future__ import annotations

import resource
import subprocess
import sys

MODULES = "asyncio, ctypes, decimal, doctest, http.server, logging.config, multiprocessing.pool, pydoc, sqlite3"
USUAL = 0.14
"""Seconds that an interpreter takes on that processor to import them, which is the kind of work that a start consists
of."""
TIMES = 3


def slowness() -> float:
    """How many times slower this processor is, at least 1; measured now, since other load slows a processor down,
    too."""
    before = _seconds_of_children()
    for _ in range(TIMES):
        subprocess.run([sys.executable, "-I", "-S", "-c", f"import {MODULES}"], check=True)
    return max(1.0, (_seconds_of_children() - before) / TIMES / USUAL)


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
