"""The table of the page is made from the figures of all runs, the newest of each fault and database (no service)."""

from __future__ import annotations

from pathlib import Path

from tests.chaos import table
from tests.chaos.check import Result


def test_the_table_has_the_newest_figures_of_each_fault_on_both_databases(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    table.keep(file, "kill", "sqlite", 1, Result(mails=1, broken=["1 accepted messages lost: ann@people.example"]))
    table.keep(file, "kill", "sqlite", 2, Result(mails=5, texts=6, refused=7, doubled=8, stall=1.25, recovery=9))
    table.keep(file, "kill", "postgresql", 2, Result(mails=15, broken=["sending again took 44.0 s, more than 40 s"]))
    table.keep(file, "calm", "sqlite", 3, Result(mails=25, broken=["1 wrong 409s: send: in progress"]))
    head, _, calm, kill, _, runs = table.page(file, ("calm", "kill", "lock"))
    assert head.startswith("| fault | mails | texts |")
    assert calm == "| `calm` | 25 / – | 0 / – | 0 / – | 0 / – | 0 / – | 0 / – | 0.0 / – | 0.0 / – | a VIOLATED |"
    assert kill == "| `kill` | 5 / 15 | 6 / 0 | 7 / 0 | 0 / 0 | 8 / 0 | 0 / 0 | 1.2 / 0.0 | 9.0 / 0.0 | b / b LATE |"
    assert runs.startswith("Runs: a: `--seed 3`, 20")
    assert "; b: `--seed 2`, 20" in runs
