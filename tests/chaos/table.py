"""The table at the end: a row per fault and database."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.check import Result

HEAD = (
    "fault",
    "database",
    "accepted",
    "refused",
    "lost",
    "doubled",
    "wrong 409",
    "stall s",
    "recovery s",
    "guarantees",
)
Row = tuple[str, ...]


def row(fault: str, database: str, result: Result) -> Row:
    """The figures of a round. `accepted` counts recipients, `refused` requests that had to be repeated."""
    figures = (result.accepted, result.refused, result.lost, result.doubled, result.wrong_conflicts)
    times = (f"{result.stall:.1f}", f"{result.recovery:.1f}")
    return (fault, database, *map(str, figures), *times, f"{len(result.broken)} BROKEN" if result.broken else "kept")


def lines(rows: Sequence[Row], head: Row = HEAD) -> list[str]:
    """Markdown, which is readable as plain text."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    return ["| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in (head, rule, *rows)]
