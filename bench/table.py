"""The table of results in Markdown. docs/performance.md shows its main columns."""

from __future__ import annotations

from collections.abc import Sequence

from bench.turns import Row

HEADINGS = ("case", "unit", "ours", "floor", "peer", "ours / floor", "ours / peer", "must reach", "reached")


def lines(rows: Sequence[Row]) -> list[str]:
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    printed = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    printed.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return printed


def figure(value: float) -> str:
    """Rates are rounded to what differs from run to run."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _cells(row: Row) -> tuple[str, ...]:
    reached = {True: "yes", False: "no", None: ""}[row.is_reached]
    return (
        row.case,
        row.unit,
        f"{figure(row.ours)} ({row.detail})" if row.detail else figure(row.ours),
        "" if row.floor is None else figure(row.floor),
        "" if row.peer is None else figure(row.peer),
        str(row.floor_ratio or ""),
        str(row.peer_ratio or ""),
        str(row.goal) if reached else "",
        reached,
    )
