"""Bar charts as numbers: where a template draws the bars (docs/console.md#overview). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 240
HEIGHT = 48
GAP = 2
LEAST = 1.5
"""Height of a bar that is not zero, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in units of the drawing; `y` is its upper edge."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Counts of one kind over time: the numbers, their sum, and a bar for each."""

    name: str
    values: Sequence[int]
    bars: Sequence[Bar]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return sum(self.values)


def chart(name: str, values: Sequence[int]) -> Chart:
    """The chart of these numbers, the oldest at the left. A negative one has no bar: an hour can take back more than
    it counts."""
    highest, step = max([*values, 1]), WIDTH / max(len(values), 1)
    return Chart(name, values, [_bar(place * step, value / highest, step) for place, value in enumerate(values)])


def _bar(x: float, share: float, step: float) -> Bar:
    height = max(share * HEIGHT, LEAST) if share > 0 else 0.0
    return Bar(round(x, 2), round(HEIGHT - height, 2), round(step - GAP, 2), round(height, 2))
