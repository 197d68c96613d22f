"""How a run of the benchmark is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """`short` finds breakage only: little work, one round, no judgement. Without PostgreSQL there are no floors."""

    rounds: int
    short: bool
    postgresql: bool

    def amount(self, full: int, short: int) -> int:
        """How much work a round does."""
        return short if self.short else full
