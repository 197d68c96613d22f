"""The table that `make bench` prints, in Markdown, as docs/performance.md holds it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.turns import Row

HEADINGS = ("case", "unit", "ours", "floor", "peer", "ours / floor", "ours / peer", "must reach", "reached")


def lines(rows: Sequence[Row]) -> list[str]:
    """The table; ratios are medians over the rounds, with the least and the most."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    printed = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    printed.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return printed


def _cells(row: Row) -> tuple[str, ...]:
    reached = {True: "yes", False: "no", None: ""}[row.reached]
    values = (row.case, row.unit, row.ours, row.floor, row.peer, row.of_floor, row.of_peer, row.goals, reached)
    return tuple(value or "" for value in values)
