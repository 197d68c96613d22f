"""The clock of leases counts while the machine is suspended (docs/crash-safety.md)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from app.clock import uptime


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a monotonic clock that counts a suspension")
def test_uptime_is_that_of_the_kernel_which_counts_suspensions() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= uptime() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert float(Path("/proc/uptime").read_text().split()[0]) <= uptime()
