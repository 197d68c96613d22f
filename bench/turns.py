"""Alternating rounds of competitors, and the row of the table that they give."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.processes import UnevenLoad

MAX_DISCARDED = 5
"""Rounds that may be discarded one after the other."""

Measure = Callable[[], float]
"""One round: does the work, checks all of it, and returns the rate (more is better)."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio over several rounds, or over several runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
        """The ratio of two competitors, round by round."""
        return cls.over(
            [numerator / denominator for numerator, denominator in zip(numerators, denominators, strict=True)]
        )

    @classmethod
    def over(cls, ratios: Sequence[float]) -> Ratio:
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.least:.2f}-{self.most:.2f})"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row must reach: a share of the floor's rate (or a rate in the row's own unit that is enough whatever the
    floor's is) and a multiple of the peer's, or at most a multiple of the floor's figure and at most a figure in the
    row's own unit."""

    floor_ratio: float | None = None
    peer_ratio: float | None = None
    max_floor_ratio: float | None = None
    most: float | None = None
    enough: float | None = None

    def __str__(self) -> str:
        parts = {
            "{:.2f} floor" + ("" if self.enough is None else f" or {self.enough:,.0f}"): self.floor_ratio,
            "{:g}x peer": self.peer_ratio,
            "at most {:g}x floor": self.max_floor_ratio,
            "at most {:,.0f}": self.most,
        }
        return ", ".join(form.format(value) for form, value in parts.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: medians over the rounds, and the ratios to floor and peer, where the case has them. `detail`
    is printed behind the figure."""

    case: str
    unit: str
    ours: float
    floor: float | None = None
    peer: float | None = None
    floor_ratio: Ratio | None = None
    peer_ratio: Ratio | None = None
    detail: str = ""
    goal: Goal = Goal()

    @property
    def is_reached(self) -> bool | None:
        """Whether the medians reach the goal; None where there is nothing to judge."""
        goal, verdicts = self.goal, []
        if self.floor_ratio is not None and goal.floor_ratio is not None:
            is_enough = goal.enough is not None and self.ours >= goal.enough
            verdicts.append(is_enough or self.floor_ratio.median >= goal.floor_ratio)
        if self.floor_ratio is not None and goal.max_floor_ratio is not None:
            verdicts.append(self.floor_ratio.median <= goal.max_floor_ratio)
        if self.peer_ratio is not None and goal.peer_ratio is not None:
            verdicts.append(self.peer_ratio.median >= goal.peer_ratio)
        if goal.most is not None:
            verdicts.append(self.ours <= goal.most)
        return all(verdicts) if verdicts else None


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
    """Runs each competitor once to warm up, then all of them in turn; each ratio is computed within its round. A single
    round only finds breakage, and has no warm-up."""
    competitors = [measure for measure in (ours, floor, peer) if measure is not None]
    if rounds > 1:
        for measure in competitors:
            _even(measure)
    results = {id(measure): [] for measure in competitors}  # type: dict[int, list[float]]
    for _ in range(rounds):
        for measure in competitors:
            results[id(measure)].append(_even(measure))
    our_results = results[id(ours)]
    return Row(
        case,
        unit,
        ours=statistics.median(our_results),
        floor=statistics.median(results[id(floor)]) if floor else None,
        peer=statistics.median(results[id(peer)]) if peer else None,
        floor_ratio=Ratio.of(our_results, results[id(floor)]) if floor else None,
        peer_ratio=Ratio.of(our_results, results[id(peer)]) if peer else None,
        goal=goal,
    )


def _even(measure: Measure) -> float:
    """A round in which all processes worked: how the kernel distributes the connections of one round is chance, and not
    what is measured. Raises `UnevenLoad` when it happens too often to be chance."""
    for _ in range(MAX_DISCARDED):
        try:
            return measure()
        except UnevenLoad as error:
            print(f"discarded a round: {error}", file=sys.stderr)
    return measure()


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
