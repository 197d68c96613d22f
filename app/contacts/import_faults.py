"""What is wrong with the rows of a file, grouped by kind. Bounded: a count and some examples for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.errors import FieldError

MOST_EXAMPLES = 3
LONGEST_VALUE = 60
"""Characters of a value that are shown."""


class Fault(NamedTuple):
    """One thing that is wrong with a row: its kind, in words, and the cell that is wrong, if it is a single one."""

    kind: tuple[str, str | None]
    text: str
    value: str | None = None

    @classmethod
    def of(cls, error: FieldError, value: str | None) -> Fault:
        """That of an attribute."""
        return cls((error.code, error.field), error.developer_message, value)


class _Example(NamedTuple):
    line: int
    fault: Fault

    @property
    def shown(self) -> str:
        """The example in a group, whose text is that of its first one."""
        value = self.fault.value
        return f"line {self.line}: {self.fault.text if value is None else shortened(value)}"


@dataclass(slots=True)
class _Group:
    count: int = 0
    examples: list[_Example] = field(default_factory=list)


class FaultReport:
    """The faults of a file."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows with faults."""
        self._groups: dict[tuple[str, str | None], _Group] = {}

    def add(self, line: int, faults: Sequence[Fault]) -> None:
        """Adds those of one row."""
        self.rows += 1
        for fault in faults:
            group = self._groups.setdefault(fault.kind, _Group())
            group.count += 1
            if len(group.examples) < MOST_EXAMPLES:
                group.examples.append(_Example(line, fault))

    def refusal(self, rows: int) -> str:
        """Why a file with so many rows was not imported: one line for a single fault."""
        if self.rows == 1 and len(self._groups) == 1:
            ((line, fault),) = next(iter(self._groups.values())).examples
            return f"line {line}: {fault.text}"
        return "\n  ".join([f"nothing was imported, {self.rows} of {rows} rows are faulty:", *self.lines()])

    def lines(self) -> Iterator[str]:
        """Each kind with its number and examples, the most frequent first."""
        for group in sorted(self._groups.values(), key=lambda group: -group.count):
            yield f"{group.count} {'row' if group.count == 1 else 'rows'}: {group.examples[0].fault.text}"
            yield from (f"  {example.shown}" for example in group.examples)


def shortened(text: str) -> str:
    """The beginning of a text of a file, quoted."""
    return repr(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…")
