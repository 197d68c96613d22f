"""The options of a run of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """A `short` run only finds breakage: it does little work in one round, and its figures mean nothing. There are no
    floors and peers without PostgreSQL."""

    rounds: int
    short: bool
    postgresql: bool

    @property
    def database(self) -> str:
        return "PostgreSQL" if self.postgresql else "SQLite"

    def amount(self, full: int, short: int) -> int:
        """The amount of work of a round."""
        return short if self.short else full
