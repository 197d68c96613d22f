"""docs/fault-tests.md names each fault of `make cluster`."""

from __future__ import annotations

import re

from tests.chaos.test_page import rows
from tests.cluster.faults import FAULTS


def test_each_fault_is_described() -> None:
    described = [name for first, *_ in rows("fault-tests.md", "Many hosts") for name in re.findall(r"`([^`]+)`", first)]
    assert sorted(described) == sorted(FAULTS)
