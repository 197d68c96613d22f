"""Cases of attacks, and the table that tells which got through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

HEAD = ("family", "attack", "SQLite", "PostgreSQL", "got through")
COLUMNS = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class Case:
    """One attack of a kind. `fault` says what got through; it is empty if nothing did."""

    attack: str
    fault: str = ""


def case(attack: str, held: bool, fault: str) -> Case:
    """A case that held, or the fault."""
    return Case(attack, "" if held else fault)


@dataclass(slots=True)
class Row:
    """All cases of one attack."""

    family: str
    attack: str
    cases: dict[str, int] = field(default_factory=dict)
    """Database -> how many."""
    faults: list[str] = field(default_factory=list)

    def cells(self) -> tuple[str, ...]:
        """The cells of the row in the table."""
        counts = (f"{self.cases[name]:,}" if name in self.cases else "" for name in COLUMNS)
        return (self.family, self.attack, *counts, f"{len(self.faults):,}" if self.faults else "none")


class Tally:
    """The rows of a run, in the order in which they came up."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def add(self, family: str, database: str, attack_case: Case) -> str:
        """Counts a case. Returns its fault, with the family and the attack; empty for none."""
        row = self.rows.setdefault((family, attack_case.attack), Row(family, attack_case.attack))
        row.cases[database] = row.cases.get(database, 0) + 1
        if not attack_case.fault:
            return ""
        row.faults.append(f"{family}, {attack_case.attack}, {database}: {attack_case.fault}")
        return row.faults[-1]

    @property
    def faults(self) -> list[str]:
        """What got through, with its family and attack."""
        return [fault for row in self.rows.values() for fault in row.faults]

    def lines(self) -> list[str]:
        """Markdown, which is readable as plain text."""
        return table(HEAD, [row.cells() for row in self.rows.values()])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
