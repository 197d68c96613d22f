"""docs/reliability.md names each promise of the suite, docs/fault-tests.md each fault, and each promise is tried and
checked."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.__main__ import parse
from tests.chaos.promises import CHECKS, Promise
from tests.chaos.registry import FAULTS

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without links."""
    _, _, section = (DOCS / page).read_text("utf-8").partition(f"\n## {heading}\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][2:]
    return [[LINK.sub(r"\1", cell).strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_each_promise_of_the_suite_is_a_row_of_the_page() -> None:
    promised = {first for first, _, proofs in rows("reliability.md", "Promises") if "make chaos" in proofs}
    assert promised == set(Promise)


def test_each_promise_is_tried_by_a_fault_and_has_a_check() -> None:
    checked = set(filter(None, CHECKS.values()))
    assert {promise for fault in FAULTS.values() for promise in fault.tries} | checked == set(Promise)
    checked_by_faults = {promise for fault in FAULTS.values() if fault.afterwards for promise in fault.tries}
    assert checked | checked_by_faults == set(Promise)


def test_each_fault_is_described() -> None:
    described = [name for first, _ in rows("fault-tests.md", "The faults") for name in re.findall(r"`([^`]+)`", first)]
    assert sorted(described) == sorted(parse([]).names)
