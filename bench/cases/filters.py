"""Case N: with 5,000,000 contacts and recipients, a filter or page takes at most 1.3 times as long as with 10,000.

These are the lines of `make growth`, judged by the one that grows most.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from bench.filters import LINES, RECIPIENTS, SENT, Line
from bench.growth import FEW_ROWS, MAX_SLOWDOWN, Installation, installation, measure
from bench.options import Options
from bench.turns import Goal, Ratio, Row

MANY_CONTACTS = 5_000_000
REMEASURE_FACTOR = 3
"""A line that seems to grow is measured again with so many times the requests: other work on the machine may have
disturbed even the quickest of few."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A line with its milliseconds in the two installations."""

    line: Line
    few: float
    many: float

    @property
    def ratio(self) -> float:
        """The ratio of the time with many rows to that with few."""
        return self.many / self.few


def run(options: Options) -> list[Row]:
    """The rows of N: `floor` is the same service with few rows."""
    many, requests = options.amount(MANY_CONTACTS, 20_000), options.amount(15, 1)
    counts = (options.amount(FEW_ROWS, 1000), many)
    with contextlib.ExitStack() as kept:
        small, large = (kept.enter_context(installation(count, postgresql=options.postgresql)) for count in counts)
        groups = {"contacts": [line for line in LINES if line.bounded]}
        if options.postgresql:
            groups |= {"sent contacts": list(SENT), "recipients": list(RECIPIENTS)}
        return [_worst(name, small, large, lines, requests) for name, lines in groups.items()]


def _worst(name: str, small: Installation, large: Installation, lines: Sequence[Line], requests: int) -> Row:
    worst = max((_measured(small, large, line, requests) for line in lines), key=lambda measurement: measurement.ratio)
    return Row(
        f"N. {name}: of {len(lines)} requests the one that grows most",
        "ms",
        worst.many,
        worst.few,
        floor_ratio=Ratio.over([worst.ratio]),
        detail=worst.line.name,
        goal=Goal(max_floor_ratio=MAX_SLOWDOWN),
    )


def _measured(small: Installation, large: Installation, line: Line, requests: int) -> Measurement:
    measurement = Measurement(line, *measure(small, large, line, requests))
    if measurement.ratio <= MAX_SLOWDOWN or requests == 1:
        return measurement
    again = measure(small, large, line, requests * REMEASURE_FACTOR)
    return Measurement(line, min(measurement.few, again[0]), min(measurement.many, again[1]))
