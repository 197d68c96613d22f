"""Nothing costs more calls than the table of the documentation says (docs/cost.md#counted-cost)."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cost.md"
LOCK = ROOT / "requirements.lock"
TOLERANCE = 1.03
ADVICE = (
    "Find out what is called more often than before (`python -m cProfile`, or `sys.setprofile`), and do it once for a "
    "batch, a send or the process. If what is bought is worth it, put the new rows of `python -m bench.cost` into the "
    "table and say in the commit what that is."
)
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)

Table = dict[str, dict[str, float]]
"""Case -> column -> number."""


def table_in(text: str) -> Table:
    """The table of costs in a text."""
    header, *rows = (row.split(" | ") for row in ROW.findall(text[text.index("| case | SQL statements |") :]))
    columns = [column.strip() for column in header[1:]]
    table: Table = {}
    for case, *numbers in rows:
        if case.startswith("---"):
            continue
        if len(numbers) != len(columns) or not case[0].isupper():
            break
        table[case.strip()] = dict(zip(columns, (float(number.replace(",", "")) for number in numbers), strict=True))
    return table


def differs_from_the_lock() -> list[str]:
    """The packages that are installed in another version than the locked one, which the table is of."""
    locked = re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", LOCK.read_text("utf-8"), re.MULTILINE)
    return [f"{name} {version(name)}" for name, locked_version in locked if version(name) != locked_version]


def test_no_case_costs_more_than_the_table_says() -> None:
    run = [sys.executable, "-m", "bench.cost"]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    print(printed)
    counted, documented = table_in(printed), table_in(PAGE.read_text("utf-8"))
    assert counted.keys() == documented.keys()
    columns = next(iter(counted.values())).keys()
    if not columns <= next(iter(documented.values())).keys() or differs_from_the_lock():
        return  # calls of functions differ between versions of Python and of the libraries
    dearer = [
        f"{case}: {number:g} {column} instead of {documented[case][column]:g}"
        for case, numbers in counted.items()
        for column, number in numbers.items()
        if number > documented[case][column] * TOLERANCE
    ]
    assert not dearer, "\n".join([*dearer, ADVICE])
