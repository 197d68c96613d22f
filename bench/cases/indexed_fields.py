"""Case C with indexes on list fields: the processor time of a request that creates 1,000 contacts.

Each number of indexes has an installation of its own, which keeps them: right after an index is made its pages are
full, and a round would measure how they are split. Processor time, because a machine's other work changes rates by
more than an index does.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from app.db.field_indexes import FieldIndex, create_index
from bench.cases.writing import CONTACTS, REQUESTS, creations, installation
from bench.options import Options
from bench.parts import SERVICE, Meter, medians
from bench.turns import Goal, Measure, Ratio, Row

FIELD_INDEXES = (FieldIndex("points", "number"), FieldIndex("born", "date"))
GOAL = Goal(max_floor_ratio=1.05)


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation with its rounds, and the processor time that they took."""

    measure: Measure
    meter: Meter

    def milliseconds(self) -> list[float]:
        """The processor time of a request, round by round."""
        return [sum(spent.values()) * 1000 for spent in self.meter.rounds]


def run(options: Options) -> list[Row]:
    """A row for each number of indexes; `floor` is the installation without any."""
    with contextlib.ExitStack() as kept:
        installations = [_installation(options, kept, FIELD_INDEXES[:count]) for count in range(len(FIELD_INDEXES) + 1)]
        for _ in range(options.rounds + (options.rounds > 1)):
            for installation in installations:
                installation.measure()
        if options.rounds > 1:
            for installation in installations:
                del installation.meter.rounds[0]  # the warm-up
    return [_row(count, installations[count], installations[0]) for count in range(1, len(installations))]


def _installation(options: Options, kept: contextlib.ExitStack, indexes: Sequence[FieldIndex]) -> Installation:
    parts, shop, (server,) = kept.enter_context(installation(options, floor=False))
    for index in indexes:
        create_index(parts.database_url, index)
    count = options.amount(REQUESTS, 8)
    meter = Meter(parts, {SERVICE: server.workers}, count)
    return Installation(creations(parts, shop, server, itertools.count(CONTACTS), count, meter=meter.round), meter)


def _row(count: int, ours: Installation, floor: Installation) -> Row:
    our_milliseconds, bare = ours.milliseconds(), floor.milliseconds()
    return Row(
        f"C. processor time with {count} indexed field{'s'[: count - 1]}",
        "ms",
        Ratio.over(our_milliseconds).median,
        Ratio.over(bare).median,
        floor_ratio=Ratio.of(our_milliseconds, bare),
        detail=", ".join(f"{part} {time * 1000:.1f}" for part, time in medians(ours.meter.rounds).items()),
        goal=GOAL,
    )
