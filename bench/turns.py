"""Turns: who competes, the rounds, and the row of the table that comes out of them."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.processes import Uneven

UNLUCKY = 5
"""Rounds on end that may be left out."""

Measure = Callable[[], float]
"""One round: does the work, checks all of it, and returns the rate (more is better)."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio over the rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> Ratio:
        """Round by round."""
        ratios = [one / other for one, other in zip(above, below, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}-{self.most:.2f})"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. What a case does not have is None; `goals` says what must be reached and whether it is."""

    case: str
    unit: str
    ours: str
    floor: str | None = None
    peer: str | None = None
    of_floor: str | None = None
    of_peer: str | None = None
    goals: str = ""
    reached: bool | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What must be reached: of the floor's rate, and of the peer's."""

    of_floor: float | None = None
    of_peer: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.of_floor is not None:
            parts.append(f"{self.of_floor:.2f} floor")
        if self.of_peer is not None:
            parts.append(f"{self.of_peer:g}x peer")
        return ", ".join(parts)


def in_turns(
    case: str,
    unit: str,
    goal: Goal,
    rounds: int,
    *,
    ours: Measure,
    floor: Measure | None = None,
    peer: Measure | None = None,
) -> Row:
    """Runs all that compete once to warm up, then in turns; each ratio is taken within its round. A single round is to
    find breakage, and has no warm-up."""
    competitors = [measure for measure in (ours, floor, peer) if measure is not None]
    if rounds > 1:
        for measure in competitors:
            _even(measure)
    results = {id(measure): [] for measure in competitors}  # type: dict[int, list[float]]
    for _ in range(rounds):
        for measure in competitors:
            results[id(measure)].append(_even(measure))
    own = results[id(ours)]
    to_floor = Ratio.of(own, results[id(floor)]) if floor else None
    to_peer = Ratio.of(own, results[id(peer)]) if peer else None
    return Row(
        case,
        unit,
        ours=_figure(own),
        floor=_figure(results[id(floor)]) if floor else None,
        peer=_figure(results[id(peer)]) if peer else None,
        of_floor=str(to_floor) if to_floor else None,
        of_peer=str(to_peer) if to_peer else None,
        goals=str(goal) if floor or peer else "",
        reached=_reached(goal, to_floor, to_peer),
    )


def _even(measure: Measure) -> float:
    """A round in which all processes worked: how the kernel spreads the connections of one round is chance, and says
    nothing of what is measured. Raises `Uneven` when it is no chance."""
    for _ in range(UNLUCKY):
        try:
            return measure()
        except Uneven as chance:
            print(f"a round is left out: {chance}", file=sys.stderr)
    return measure()


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def _figure(rates: Sequence[float]) -> str:
    median = statistics.median(rates)
    return f"{median:,.0f}" if median >= 100 else f"{median:.1f}"


def _reached(goal: Goal, to_floor: Ratio | None, to_peer: Ratio | None) -> bool | None:
    """Judged by the medians; None where there is nothing to judge by."""
    judged = [
        ratio.median >= wanted
        for ratio, wanted in ((to_floor, goal.of_floor), (to_peer, goal.of_peer))
        if ratio is not None and wanted is not None
    ]
    return all(judged) if judged else None
